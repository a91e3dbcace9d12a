// SPDX-License-Identifier: Apache-2.0
// Extended attributes of the name space.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/testing/fs_test.h"
#include "wire/xattr_messages.h"

namespace spate::meta {
namespace {

TEST(MetaXattrs, XattrsAreKeptListedAndRemoved) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.create("f"));
  const std::uint64_t before = user.stat("f")->attributes.version;
  ASSERT_OK(user.setxattr("f", "user.b", "two"));
  ASSERT_OK(user.setxattr("f", "user.a", std::string("o\0e", 3)));
  EXPECT_EQ(*user.getxattr("f", "user.a"), std::string("o\0e", 3));
  EXPECT_EQ(*user.listxattr("f"), (std::vector<std::string>{"user.a", "user.b"}));
  EXPECT_GT(user.stat("f")->attributes.version, before);
  EXPECT_ERRC(user.setxattr("f", "user.a", "x", wire::kXattrCreate), Errc::kExists);
  ASSERT_OK(user.setxattr("f", "user.a", "", wire::kXattrReplace));
  EXPECT_EQ(*user.getxattr("f", "user.a"), "");
  ASSERT_OK(user.removexattr("f", "user.a"));
  EXPECT_EQ(*user.listxattr("f"), std::vector<std::string>{"user.b"});
  ASSERT_OK(user.mkdir("d"));
  ASSERT_OK(user.setxattr("d", "user.spate.strip_count", "3"));
  EXPECT_EQ(*user.listxattr("d"), std::vector<std::string>{"user.spate.strip_count"});
  ASSERT_OK(user.removexattr("d", "user.spate.strip_count"));
  EXPECT_THAT(*user.listxattr("d"), testing::IsEmpty());
}

TEST(MetaXattrs, XattrsOfOneObjectAreBounded) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.create("many"));
  Errc last = Errc::kOk;
  int count = 0;
  for (; count < 2000 && last == Errc::kOk; ++count)
    last = user.setxattr("many", "user.n" + std::to_string(count), "").code();
  EXPECT_EQ(last, Errc::kNoSpace);
  EXPECT_EQ(user.listxattr("many")->size(), 512U);
  ASSERT_OK(user.removexattr("many", "user.n0"));
  EXPECT_OK(user.setxattr("many", "user.again", ""));
  ASSERT_OK(user.create("large"));
  const std::string value(65536, 'v');
  for (int i = 0; i < 15; ++i) ASSERT_OK(user.setxattr("large", "user.n" + std::to_string(i), value));
  EXPECT_ERRC(user.setxattr("large", "user.toomuch", value), Errc::kNoSpace);
  ASSERT_OK(user.setxattr("large", "user.n0", ""));  // a replaced value frees its room
  EXPECT_OK(user.setxattr("large", "user.toomuch", value));
}

}  // namespace
}  // namespace spate::meta
