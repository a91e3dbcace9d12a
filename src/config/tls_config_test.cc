// SPDX-License-Identifier: Apache-2.0
// The section [tls], and the addresses that it allows servers to have.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "config/load.h"
#include "config/url.h"

namespace spate::config {
namespace {

using testing::HasSubstr;

constexpr const char* kFiles = "[tls]\nca = \"ca.pem\"\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n";
constexpr const char* kKeys = "client_key_file = \"a\"\nserver_key_file = \"b\"\n";

/// A file with two servers, at these addresses of the first one.
Result<LoadedConfig> loaded(const std::string& fs, const std::string& tls, const std::string& urls) {
  Input input;
  input.text =
      "[fs]\nid = \"1\"\n" + fs + tls + "[[servers]]\nid = 1\nurls = [" + urls +
      "]\nroles = [\"meta\"]\nkeyval = \"/m\"\n[[servers]]\nid = 2\nurls = [\"tcp+tls://b:1\"]\nroles = [\"io\"]\n"
      "storage = [\"/s\"]\n";
  input.file_name = "spate.toml";
  input.folder = "/etc";
  return load(input);
}

void expect_refused(const Result<LoadedConfig>& config, const std::string& why) {
  ASSERT_ERRC(config, Errc::kInvalidArgument);
  EXPECT_THAT(config.error().context(), HasSubstr(why));
}

TEST(TlsConfig, AnAddressNeedsHostAndPort) {
  EXPECT_OK(check_url("tcp+tls://node1:7400"));
  EXPECT_OK(check_url("tcp+tls://[::1]:7400"));
  for (const char* bad : {"tcp+tls://", "tcp+tls://a", "tcp+tls://:1", "tcp+tls://a:0", "tcp+ssl://a:1", "tls://a:1"})
    EXPECT_ERRC(check_url(bad), Errc::kBadAddress) << bad;
}

TEST(TlsConfig, KeysOrCertificateFilesMustBeSetTogether) {
  EXPECT_OK(loaded(kKeys, "", "\"tcp+tls://a:1\""));
  const auto config = loaded(kKeys, kFiles, "\"tcp+tls://a:1\"");
  ASSERT_OK(config);
  EXPECT_EQ(config->config.tls.certificate, "/etc/c.pem");
  expect_refused(loaded(kKeys, "[tls]\nca = \"ca.pem\"\n", "\"tcp+tls://a:1\""), "are set together");
  EXPECT_OK(loaded(kKeys, kFiles + std::string("revoked = \"crl.pem\"\n"), "\"tcp+tls://a:1\""));
  expect_refused(loaded(kKeys, "[tls]\nrevoked = \"crl.pem\"\n", "\"tcp+tls://a:1\""), "is for certificates");
}

TEST(TlsConfig, AServerIsNotReachedInClearAsWell) {
  expect_refused(loaded(kKeys, "", R"("tcp+tls://a:1", "tcp://a:2")"), "would send in clear to tcp://a:2");
  expect_refused(loaded(kKeys, "", R"("ofi+tcp://a:2", "tcp+tls://a:1")"), "would send in clear to ofi+tcp://a:2");
  EXPECT_OK(loaded(kKeys, "", R"("shm://a", "tcp+tls://a:1", "tcp://127.0.0.1:2")"));
  EXPECT_OK(loaded(kKeys, "[tls]\nplain_too = \"yes\"\n", R"("tcp+tls://a:1", "tcp://a:2")"));
}

TEST(TlsConfig, WithCertificatesAloneClientsAreAdmittedOnlyIfTheyShowOne) {
  const std::string fs = "auth = \"tls\"\nserver_key_file = \"b\"\n";
  EXPECT_OK(loaded(fs, kFiles, R"("shm://a", "tcp+tls://a:1")"));
  expect_refused(loaded(fs, "", "\"tcp+tls://a:1\""), "tcp+tls:// needs certificates");
  expect_refused(loaded(fs, kFiles, R"("tcp+tls://a:1", "tcp://127.0.0.1:2")"), "not for tcp://127.0.0.1:2");
  expect_refused(loaded("auth = \"tls\"\n", kFiles, "\"tcp+tls://a:1\""), "needs fs.server_key_file");
}

TEST(TlsConfig, WithoutKeysCertificatesAreNeeded) {
  expect_refused(loaded("auth = \"none\"\n", "", "\"tcp+tls://127.0.0.1:1\""), "tcp+tls:// needs certificates");
}

}  // namespace
}  // namespace spate::config
