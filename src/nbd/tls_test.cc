// SPDX-License-Identifier: Apache-2.0
#include "nbd/tls.h"

#include "base/expect.h"

namespace spate::nbd {
namespace {

constexpr const char* kKey = "000102030405060708090a0b0c0d0e0f";

TEST(TlsKeys, AreReadAsPsktoolWritesThem) {
  const auto keys =
      parse_tls_keys(std::string("# ours\n\nalice:") + kKey + "\r\nb:ob:FFEEDDCCBBAA99887766554433221100\n");
  ASSERT_OK(keys);
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ(keys->at("alice")[15], std::byte{15});
  EXPECT_EQ(keys->at("b:ob")[0], std::byte{0xff});
}

TEST(TlsKeys, AnInvalidKeyIsReportedWithItsLine) {
  for (const std::string& text :
       {std::string("alice"), std::string("alice:zz"), std::string(":") + kKey, std::string("a:00"),
        std::string("a:") + kKey + "0", std::string("a:") + std::string(200, '0')}) {
    const auto keys = parse_tls_keys("\n" + text);
    ASSERT_ERRC(keys, Errc::kInvalidArgument) << text;
    EXPECT_NE(keys.error().message().find("line 2"), std::string::npos) << keys.error().message();
  }
  EXPECT_ERRC(parse_tls_keys("# none\n"), Errc::kInvalidArgument);
}

TEST(Tls, NamesTheFileThatIsMissing) {
  const auto tls = make_tls({"/nonexistent", ""});
  ASSERT_ERRC(tls, Errc::kInvalidArgument);
  EXPECT_NE(tls.error().message().find("/nonexistent/server-cert.pem"), std::string::npos);
  EXPECT_ERRC(make_tls({"", "/nonexistent"}), Errc::kNotFound);
}

}  // namespace
}  // namespace spate::nbd
