// SPDX-License-Identifier: Apache-2.0
#include "nbd/access.h"

#include "base/expect.h"

namespace spate::nbd {
namespace {

TEST(AccessList, AllowsTheClientsItNames) {
  const auto list = AccessList::parse("10.1.0.0/20,192.0.2.7,unix,fd00::/8");
  ASSERT_OK(list);
  EXPECT_TRUE(list->allows({10, 1, 15, 255}, {}));
  EXPECT_FALSE(list->allows({10, 1, 16, 0}, {}));
  EXPECT_TRUE(list->allows({192, 0, 2, 7}, {}));
  EXPECT_FALSE(list->allows({192, 0, 2, 6}, {}));
  EXPECT_TRUE(list->allows({}, {}));
  EXPECT_TRUE(list->allows({0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, {}));
  EXPECT_FALSE(list->allows({0xfe, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, {}));
}

TEST(AccessList, AnEmptyListAllowsEverybody) {
  EXPECT_TRUE(AccessList::parse("")->allows({1, 2, 3, 4}, {}));
  EXPECT_FALSE(AccessList::parse("10.0.0.0/8")->allows({}, {}));
  EXPECT_TRUE(AccessList::parse("0.0.0.0/0")->allows({1, 2, 3, 4}, {}));
}

TEST(AccessList, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"10.0.0.0/33", "10.0.0/8", "host", "10.0.0.1/", "10.0.0.1,", ",10.0.0.1", "10.0.0.1/8x",
                           "::1/129", "cert:", "psk:,unix", "key:x"}) {
    EXPECT_ERRC(AccessList::parse(text), Errc::kInvalidArgument) << text;
  }
}

TEST(AccessList, IdentitiesComeFromTlsAndAddressesStillApply) {
  const auto list = AccessList::parse("10.0.0.0/8,cert:alice,psk:bob,unix");
  ASSERT_OK(list);
  EXPECT_TRUE(list->allows({10, 0, 0, 1}, {"cert:alice"}));
  EXPECT_TRUE(list->allows({10, 0, 0, 1}, {"cert:other", "psk:bob"}));
  EXPECT_FALSE(list->allows({10, 0, 0, 1}, {})) << "no identity";
  EXPECT_FALSE(list->allows({10, 0, 0, 1}, {"psk:alice", "cert:alic", "cert:alicee"})) << "others";
  EXPECT_FALSE(list->allows({11, 0, 0, 1}, {"cert:alice"})) << "from elsewhere";
  EXPECT_TRUE(list->allows({}, {})) << "a Unix socket has its own protection";
  EXPECT_TRUE(list->names("cert:"));
  EXPECT_TRUE(list->names("psk:"));

  const auto only_names = AccessList::parse("psk:bob");
  EXPECT_TRUE(only_names->allows({1, 2, 3, 4}, {"psk:bob"}));
  EXPECT_FALSE(only_names->allows({1, 2, 3, 4}, {}));
  EXPECT_FALSE(only_names->allows({}, {})) << "a Unix socket is not named";
  EXPECT_FALSE(only_names->names("cert:"));
  EXPECT_FALSE(only_names->empty());
}

}  // namespace
}  // namespace spate::nbd
