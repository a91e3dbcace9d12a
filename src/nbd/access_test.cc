// SPDX-License-Identifier: Apache-2.0
#include "nbd/access.h"

#include <gtest/gtest.h>

namespace spate::nbd {
namespace {

TEST(AccessList, LetsInWhomItNames) {
  const auto list = AccessList::parse("10.1.0.0/20,192.0.2.7,unix,fd00::/8");
  ASSERT_TRUE(list);
  EXPECT_TRUE(list->allows({10, 1, 15, 255}));
  EXPECT_FALSE(list->allows({10, 1, 16, 0}));
  EXPECT_TRUE(list->allows({192, 0, 2, 7}));
  EXPECT_FALSE(list->allows({192, 0, 2, 6}));
  EXPECT_TRUE(list->allows({}));
  EXPECT_TRUE(list->allows({0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_FALSE(list->allows({0xfe, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(AccessList, AnEmptyOneLetsEverybodyIn) {
  EXPECT_TRUE(AccessList::parse("")->allows({1, 2, 3, 4}));
  EXPECT_FALSE(AccessList::parse("10.0.0.0/8")->allows({}));
  EXPECT_TRUE(AccessList::parse("0.0.0.0/0")->allows({1, 2, 3, 4}));
}

TEST(AccessList, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"10.0.0.0/33", "10.0.0/8", "host", "10.0.0.1/", "10.0.0.1,", ",10.0.0.1", "10.0.0.1/8x", "::1/129"}) {
    EXPECT_FALSE(AccessList::parse(text)) << text;
  }
}

}  // namespace
}  // namespace spate::nbd
