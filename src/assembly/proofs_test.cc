// SPDX-License-Identifier: Apache-2.0
// These tests compare the rules that servers and clients get with the addresses in spate.toml.
#include "assembly/proofs.h"

#include <gmock/gmock.h>

#include "base/expect.h"

namespace spate::assembly {
namespace {

using config::Auth;
using rpc::Proof;

config::ServerConfig server_at(std::vector<std::string> urls, std::vector<Auth> auth) {
  config::ServerConfig server;
  server.id = ServerId(3);
  server.urls = std::move(urls);
  server.auth = std::move(auth);
  return server;
}

TEST(Proofs, EachAddressOfAServerHasItsEntrance) {
  config::FileSystemConfig config;
  const auto self = server_at({"tcp://127.0.0.1:7403", "tcp://127.0.0.2:7403", "shm://x", "tcp://localhost:7404"},
                              {Auth::kKey, Auth::kMunge, Auth::kNone, Auth::kNone});
  const auto doors = entrances_of(config, self);
  ASSERT_OK(doors);
  EXPECT_EQ(doors->at("tcp://127.0.0.1:50000", "tcp://127.0.0.1:7403"), Proof::kKey);
  EXPECT_EQ(doors->at("tcp://127.0.0.1:50000", "tcp://127.0.0.2:7403"), Proof::kMunge);
  EXPECT_EQ(doors->at("tcp://127.0.0.1:50000", "tcp://127.0.0.3:7403"), std::nullopt);
  EXPECT_EQ(doors->at("shm://x#1", "shm://x"), Proof::kNothing);
  config.fs.auth = Auth::kTls;
  const auto alike = entrances_of(config, server_at({"tcp+tls://no.such.host.invalid:1"}, {}));
  ASSERT_OK(alike);
  EXPECT_EQ(alike->at("", ""), Proof::kCertificate);
}

TEST(Proofs, AnOpenAddressMustBeOfTheOwnMachine) {
  config::FileSystemConfig config;
  const auto by_word = entrances_of(config, server_at({"tcp://127.0.0.1:1", "tcp://192.0.2.1:1"}, {Auth::kNone}));
  ASSERT_ERRC(by_word, Errc::kNotPermitted);
  EXPECT_EQ(by_word.error().context(),
            "server 3: auth is \"none\" at tcp://192.0.2.1:1, which means tcp://192.0.2.1:1 here, where other machines "
            "reach it: use auth = \"key\"");
  config.fs.auth = Auth::kNone;
  EXPECT_ERRC(entrances_of(config, server_at({"tcp://192.0.2.1:1"}, {})), Errc::kNotPermitted);
  EXPECT_OK(entrances_of(config, server_at({"tcp://[::1]:1", "tcp://127.9.9.9:1"}, {})));
}

TEST(Proofs, OpenAddressesOfServersElsewhereAreKnown) {
  config::FileSystemConfig config;
  const std::string open = "tcp://127.0.0.1:7403";
  config.servers = {server_at({open, "tcp://192.0.2.1:7403"}, {Auth::kNone, Auth::kKey})};
  EXPECT_TRUE(urls_to_avoid(config).contains(open)) << "192.0.2.1 is nobody's";
  config.servers = {server_at({open, "shm://x"}, {Auth::kNone})};
  EXPECT_TRUE(urls_to_avoid(config).empty()) << "a file system of one machine";
  config.servers = {server_at({open, "tcp://192.0.2.1:7403"}, {Auth::kKey})};
  EXPECT_TRUE(urls_to_avoid(config).empty()) << "whoever listens there must prove the key";
}

TEST(Proofs, AProcessWithoutTheCertificatesKeyUsesAnotherAddress) {
  config::FileSystemConfig config;
  config.tls.key = "/nonexistent/tls.key";
  config.servers = {server_at({"tcp+tls://192.0.2.1:1", "tcp://192.0.2.1:2"}, {Auth::kTls, Auth::kMunge})};
  EXPECT_TRUE(urls_to_avoid(config).contains("tcp+tls://192.0.2.1:1")) << "its key cannot be read here";
  config.servers = {server_at({"tcp+tls://192.0.2.1:1"}, {Auth::kTls})};
  EXPECT_TRUE(urls_to_avoid(config).empty()) << "there is no other";
  config.servers = {server_at({"shm://x", "tcp+tls://192.0.2.1:1"}, {})};
  EXPECT_TRUE(urls_to_avoid(config).empty()) << "a file without words means what it meant before";
  config.tls.key = "/proc/self/exe";
  config.servers = {server_at({"tcp+tls://192.0.2.1:1", "tcp://192.0.2.1:2"}, {Auth::kTls, Auth::kMunge})};
  EXPECT_THAT(urls_to_avoid(config), testing::IsEmpty());
}

TEST(Proofs, AClientKnowsWhatEachUrlAsksFor) {
  config::FileSystemConfig config;
  config.fs.auth = Auth::kMunge;
  config.auth.munge = true;
  config.servers = {server_at({"tcp://a:1", "tcp://a:2"}, {Auth::kKey, Auth::kTls}), server_at({"tcp://b:1"}, {})};
  const rpc::AskedProofs asked = asked_proofs(config);
  EXPECT_EQ(asked.at("tcp://a:1"), Proof::kKey);
  EXPECT_EQ(asked.at("tcp://a:2"), Proof::kCertificate);
  EXPECT_EQ(asked.at("tcp://b:1"), Proof::kMunge);
  EXPECT_TRUE(asked.munge_for_key) << "munge does not count beside keys";
}

}  // namespace
}  // namespace spate::assembly
