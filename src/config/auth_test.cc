// SPDX-License-Identifier: Apache-2.0
// Each address of a server asks clients for a proof: that of servers.auth, or of fs.auth where it says nothing.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "config/describe.h"
#include "config/load.h"

namespace spate::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kBothKeys = "client_key_file = \"c\"\nserver_key_file = \"s\"\n";
constexpr const char* kCertificates = "[tls]\nca = \"ca.pem\"\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n";

/// A file with two servers. `first` has the urls, and what else is said, of the first one.
Result<LoadedConfig> file(const std::string& first, const std::string& fs = kBothKeys, const std::string& more = "",
                          const std::string& second = "urls = [\"tcp://b:1\"]\n") {
  Input input;
  input.text = "[fs]\nid = \"1\"\n" + fs + more + "[[servers]]\nid = 1\n" + first +
               "roles = [\"meta\"]\nkeyval = \"/m\"\n[[servers]]\nid = 2\n" + second +
               "roles = [\"io\"]\nstorage = [\"/s\"]\n";
  input.file_name = "spate.toml";
  input.folder = "/etc";
  return load(input);
}

std::vector<Auth> asked(const FileSystemConfig& config, std::size_t server) {
  std::vector<Auth> all;
  for (std::size_t i = 0; i < config.servers[server].urls.size(); ++i)
    all.push_back(auth_at(config, config.servers[server], i));
  return all;
}

void expect_mistake(const Result<LoadedConfig>& config, const std::string& why) {
  ASSERT_ERRC(config, Errc::kInvalidArgument) << why;
  EXPECT_THAT(config.error().context(), AllOf(HasSubstr("spate.toml:"), HasSubstr(why)));
}

TEST(AuthConfig, EachAddressHasItsOwnWord) {
  const auto loaded = file(
      "urls = [\"shm://a\", \"tcp://a:1\", \"tcp://a-fast:1\", \"tcp://127.0.0.1:9\"]\n"
      "auth = [\"none\", \"key\", \"munge\", \"none\"]\n");
  ASSERT_OK(loaded);
  EXPECT_EQ(asked(loaded->config, 0), (std::vector{Auth::kNone, Auth::kKey, Auth::kMunge, Auth::kNone}));
  EXPECT_EQ(asked(loaded->config, 1), std::vector{Auth::kKey}) << "fs.auth";
  EXPECT_THAT(show(*loaded), HasSubstr("auth = [\"none\", \"key\", \"munge\", \"none\"]  # spate.toml:8"));
  const auto again = load({to_toml(loaded->config), "spate.toml", "/etc", {}});
  ASSERT_OK(again);
  EXPECT_EQ(again->config, loaded->config);
}

TEST(AuthConfig, OneWordIsForAllAddressesOfAServer) {
  const auto loaded = file("urls = [\"tcp://a:1\", \"tcp://a:2\"]\nauth = [\"munge\"]\n");
  ASSERT_OK(loaded);
  EXPECT_EQ(asked(loaded->config, 0), (std::vector{Auth::kMunge, Auth::kMunge}));
  EXPECT_TRUE(asks_for(loaded->config, Auth::kMunge)) << "no address asks for munge";
  EXPECT_FALSE(asks_for(loaded->config, Auth::kTls));
}

TEST(AuthConfig, WithoutWordsTheFileMeansWhatItMeantBefore) {
  const auto loaded = file("urls = [\"shm://a\", \"tcp://a:1\"]\n");
  ASSERT_OK(loaded);
  EXPECT_EQ(asked(loaded->config, 0), (std::vector{Auth::kKey, Auth::kKey}));
  EXPECT_EQ(loaded->config.servers[0].auth, std::vector<Auth>());
}

TEST(AuthConfig, UnknownWordsAndWrongCountsAreRefused) {
  expect_mistake(
      file("urls = [\"tcp://a:1\"]\nauth = [\"password\"]\n"),
      "servers.auth: \"password\" is not allowed; allowed: a list of 0 .. 8 of \"key\" | \"none\" | \"tls\" | "
      "\"munge\"");
  expect_mistake(file("urls = [\"tcp://a:1\"]\nauth = \"key\"\n"), "servers.auth: \"key\" is not allowed");
  expect_mistake(
      file("urls = [\"tcp://a:1\", \"tcp://a:2\", \"tcp://a:3\"]\nauth = [\"key\", \"munge\"]\n"),
      "servers.auth of server 1 has 2 words for 3 addresses: write one word for each address, or one for all");
  expect_mistake(file("urls = [\"tcp://a:1\"]\nauth = [\"key\", \"munge\"]\n"), "has 2 words for 1 address:");
}

TEST(AuthConfig, NothingIsAskedForOnlyWhereNoOtherMachineComes) {
  for (const char* const open : {"tcp://a:1", "tcp://0.0.0.0:1", "ofi+verbs://10.0.0.1:1", "tcp://[fe80::1]:1"}) {
    const std::string url(open);
    expect_mistake(file("urls = [\"tcp://a:7\", \"" + url + "\"]\nauth = [\"key\", \"none\"]\n"),
                   "servers.auth of server 1: auth = \"none\" admits every client that reaches a server");
  }
  for (const char* const own :
       {"tcp://127.0.0.1:1", "tcp://[::1]:1", "tcp://localhost:1", "shm:///run/1", "ofi+shm://x"})
    EXPECT_OK(file("urls = [\"tcp://a:7\", \"" + std::string(own) + "\"]\nauth = [\"key\", \"none\"]\n")) << own;
}

TEST(AuthConfig, CertificatesAreAskedForOnlyWhereTheyAreShown) {
  const std::string outside = "urls = [\"tcp+tls://a:1\", \"shm://a\"]\nauth = [\"tls\", \"key\"]\n";
  EXPECT_OK(file(outside, kBothKeys, kCertificates));
  expect_mistake(file(outside), "servers.auth of server 1: tcp+tls:// needs certificates (tls.ca");
  expect_mistake(
      file("urls = [\"tcp://a:1\"]\nauth = [\"tls\"]\n", kBothKeys, kCertificates),
      "servers.auth of server 1: auth = \"tls\" lets clients in by their certificates, so it is for tcp+tls:// "
      "and shm:// addresses only, not for tcp://a:1");
  // Without certificates a client of TLS proves the client key, which users by munge do not have.
  expect_mistake(file("urls = [\"tcp+tls://a:1\"]\nauth = [\"munge\"]\n"), "at tcp+tls://a:1");
  EXPECT_OK(file("urls = [\"tcp+tls://a:1\"]\nauth = [\"munge\"]\n", kBothKeys, kCertificates));
  // Clients prove keys on the connections in clear. What an address asks for does not decide whether it encrypts.
  const std::string inside = "urls = [\"tcp+tls://a:1\", \"tcp://a:2\"]\nauth = [\"tls\", \"key\"]\n";
  expect_mistake(file(inside, kBothKeys, kCertificates), "a client would send in clear to tcp://a:2");
  EXPECT_OK(file(inside, kBothKeys, kCertificates + std::string("plain_too = \"yes\"\n")));
}

TEST(AuthConfig, TheServerMustSeeAtWhichAddressAClientComes) {
  expect_mistake(
      file("urls = [\"ofi+verbs://a:1\", \"ofi+verbs://b:1\"]\nauth = [\"key\", \"munge\"]\n"),
      "all ofi+verbs:// addresses of a server ask for the same, and ofi+verbs://b:1 asks for \"munge\" where "
      "another one asks for \"key\"");
  expect_mistake(file("urls = [\"shm://a\", \"shm://b\"]\nauth = [\"none\", \"key\"]\n"), "all shm:// addresses");
  EXPECT_OK(
      file("urls = [\"ofi+verbs://a:1\", \"ofi+tcp://a:2\", \"tcp://a:3\", \"tcp://b:3\"]\n"
           "auth = [\"key\", \"munge\", \"key\", \"munge\"]\n"));
}

TEST(AuthConfig, KeyFilesAreNeededWhereKeysAreAskedFor) {
  const std::string by_munge = "urls = [\"tcp://a:1\"]\nauth = [\"munge\"]\n";
  const std::string other_by_munge = "urls = [\"tcp://b:1\"]\nauth = [\"munge\"]\n";
  EXPECT_OK(file(by_munge, "server_key_file = \"s\"\n", "", other_by_munge)) << "no address asks for a key";
  EXPECT_OK(file("urls = [\"tcp://a:1\"]\n", "auth = \"munge\"\nserver_key_file = \"s\"\n"));
  expect_mistake(file(by_munge, "", "", other_by_munge),
                 "servers.auth of server 1: auth = \"munge\" needs fs.server_key_file");
  expect_mistake(file("urls = [\"tcp://a:1\"]\nauth = [\"key\"]\n", "server_key_file = \"s\"\n", "", other_by_munge),
                 "servers.auth of server 1: auth = \"key\" needs fs.client_key_file and fs.server_key_file");
}

TEST(AuthConfig, WhatNeedsProofsIsRefusedWhereThereAreNone) {
  const std::string open = "urls = [\"tcp://a:1\", \"shm://a\"]\nauth = [\"key\", \"none\"]\n";
  expect_mistake(file(open, kBothKeys, "[auth]\nprotect = \"data\"\n"),
                 "servers.auth of server 1: auth.protect = \"data\" needs \"key\" or \"munge\" at shm://a");
  const std::string by_munge = "urls = [\"tcp://a:1\"]\nauth = [\"munge\"]\n";
  EXPECT_OK(file(by_munge, kBothKeys, "[auth]\nprotect = \"data\"\n"));
  expect_mistake(file(by_munge, kBothKeys, "[auth]\nallow_v1 = \"yes\"\n"),
                 "auth = \"munge\" and auth.allow_v1 exclude each other");
  EXPECT_OK(file(by_munge, kBothKeys, "[auth]\nmunge = \"yes\"\n")) << "server 2 asks for a key, or munge";
  expect_mistake(file(by_munge, kBothKeys, "[auth]\nmunge = \"yes\"\n", "urls = [\"tcp://b:1\"]\nauth = [\"munge\"]\n"),
                 "auth.munge needs fs.auth = \"key\"");
}

}  // namespace
}  // namespace spate::config
