// SPDX-License-Identifier: Apache-2.0
#include "nbd/tls.h"

#include <gtest/gtest.h>

namespace spate::nbd {
namespace {

constexpr const char* kKey = "000102030405060708090a0b0c0d0e0f";

TEST(TlsKeys, AreReadAsPsktoolWritesThem) {
  const auto keys =
      parse_tls_keys(std::string("# ours\n\nalice:") + kKey + "\r\nb:ob:FFEEDDCCBBAA99887766554433221100\n");
  ASSERT_TRUE(keys);
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ(keys->at("alice")[15], std::byte{15});
  EXPECT_EQ(keys->at("b:ob")[0], std::byte{0xff});
}

TEST(TlsKeys, WhatIsNoKeyIsToldByItsLine) {
  for (const std::string& text :
       {std::string("alice"), std::string("alice:zz"), std::string(":") + kKey, std::string("a:00"),
        std::string("a:") + kKey + "0", std::string("a:") + std::string(200, '0')}) {
    const auto keys = parse_tls_keys("\n" + text);
    ASSERT_FALSE(keys) << text;
    EXPECT_NE(keys.error().message().find("line 2"), std::string::npos) << keys.error().message();
  }
  EXPECT_FALSE(parse_tls_keys("# none\n"));
}

TEST(Tls, NamesTheFileThatIsMissing) {
  const auto tls = make_tls({"/nonexistent", ""});
  ASSERT_FALSE(tls);
  EXPECT_NE(tls.error().message().find("/nonexistent/server-cert.pem"), std::string::npos);
  EXPECT_FALSE(make_tls({"", "/nonexistent"}));
}

}  // namespace
}  // namespace spate::nbd
