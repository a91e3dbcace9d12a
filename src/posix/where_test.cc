// SPDX-License-Identifier: Apache-2.0
#include "posix/where.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace spate::posix {
namespace {

TEST(Where, PathsAreCheckedBeforeTheyAreSent) {
  Where where;
  EXPECT_EQ(to_name_path(where, true).code(), Errc::kNotFound);
  where.empty_is_base = true;
  EXPECT_TRUE(to_name_path(where, true).has_value());
  where.path.assign(kLongestPath, 'a');
  EXPECT_TRUE(to_name_path(where, true).has_value());
  where.path += 'a';
  EXPECT_EQ(to_name_path(where, true).code(), Errc::kNameTooLong);
  where.path = std::string("a\0b", 3);
  EXPECT_EQ(to_name_path(where, true).code(), Errc::kInvalidArgument);
}

TEST(Where, OnlyRelativePathsBeginAtTheBase) {
  Where where;
  where.base = Handle(7);
  where.path = "a/b";
  EXPECT_EQ(to_name_path(where, true)->start, Handle(7));
  where.path = "/a/b";
  EXPECT_EQ(to_name_path(where, true)->start, kRootHandle);
  EXPECT_EQ(to_name_path(Where::object(Handle(9)), true)->start, Handle(9));
  EXPECT_EQ(to_name_path(Where::object(Handle(9)), true)->path, "");
}

TEST(Where, FlagsSayWhatIsFollowed) {
  using wire::NamePath;
  Where where = Where::entry(Handle(3), "name");
  EXPECT_EQ(to_name_path(where, true)->flags, NamePath::kRootedLinks);
  EXPECT_EQ(to_name_path(where, false)->flags, 0);
  where.follow = true;
  EXPECT_EQ(to_name_path(where, false)->flags, NamePath::kFollowLast);
}

Attributes object(FileType type, std::uint32_t mode) {
  Attributes a;
  a.type = type;
  a.mode = mode;
  a.uid = 10;
  a.gid = 20;
  return a;
}

TEST(Access, TheFirstClassThatFitsDecides) {
  const Attributes file = object(FileType::kRegular, 0421);  // owner reads, group writes, others execute
  const Credential owner{10, 20, {}};
  const Credential member{11, 20, {}};
  const Credential guest{11, 21, {19, 20}};
  const Credential other{11, 21, {}};
  for (const int wanted : {F_OK, R_OK, W_OK, X_OK, R_OK | W_OK}) {
    EXPECT_EQ(may_access(owner, file, wanted), wanted == F_OK || wanted == R_OK) << wanted;
    EXPECT_EQ(may_access(member, file, wanted), wanted == F_OK || wanted == W_OK) << wanted;
    EXPECT_EQ(may_access(guest, file, wanted), wanted == F_OK || wanted == W_OK) << wanted;
    EXPECT_EQ(may_access(other, file, wanted), wanted == F_OK || wanted == X_OK) << wanted;
  }
}

TEST(Access, TheSuperuserLacksOnlyWhatNobodyMayExecute) {
  const Credential root{0, 0, {}};
  EXPECT_TRUE(may_access(root, object(FileType::kRegular, 0), R_OK | W_OK));
  EXPECT_FALSE(may_access(root, object(FileType::kRegular, 0666), X_OK));
  EXPECT_TRUE(may_access(root, object(FileType::kRegular, 0001), X_OK));
  EXPECT_TRUE(may_access(root, object(FileType::kDirectory, 0), X_OK));
}

}  // namespace
}  // namespace spate::posix
