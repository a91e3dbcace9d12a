// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/policy.h"

#include "base/expect.h"

namespace spate::bmi::shm {
namespace {

TEST(AccessPolicy, TheSameUserAndRoot) {
  const AccessPolicy policy = parse_policy("same").value();
  EXPECT_TRUE(policy.admits(1000, 1000)) << "the same user";
  EXPECT_TRUE(policy.admits(0, 1000)) << "root";
  EXPECT_FALSE(policy.admits(1001, 1000)) << "another user";
  EXPECT_FALSE(policy.admits(1000, 0)) << "a server of root's does not let everybody in";
}

TEST(AccessPolicy, EverybodyOrAList) {
  EXPECT_TRUE(parse_policy("any").value().admits(1001, 1000)) << "any lets everybody in";
  const AccessPolicy list = parse_policy("1001,7").value();
  EXPECT_TRUE(list.admits(7, 1000)) << "7 is in the list";
  EXPECT_TRUE(list.admits(1001, 1000)) << "1001 is in the list";
  EXPECT_TRUE(list.admits(0, 1000)) << "root";
  EXPECT_FALSE(list.admits(1000, 1000)) << "the server's own user is not in the list";
}

TEST(AccessPolicy, OtherTextIsNoPolicy) {
  for (const char* text : {"", "all", "same,", "1,,2", "-1", "1 2", "4294967296", "0x1", "1,any"}) {
    const auto policy = parse_policy(text);
    EXPECT_ERRC(policy, Errc::kInvalidArgument) << text;
  }
  std::string many = "1";
  for (int i = 0; i < 256; ++i) many += ",1";
  EXPECT_ERRC(parse_policy(many), Errc::kInvalidArgument) << "257 of them";
}

}  // namespace
}  // namespace spate::bmi::shm
