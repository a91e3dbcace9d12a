// SPDX-License-Identifier: Apache-2.0
#include "posix/path_at.h"

#include <unistd.h>

#include "base/expect.h"

namespace spate::posix {
namespace {

TEST(PosixWhere, PathsAreCheckedBeforeTheyAreSent) {
  PathAt where;
  EXPECT_ERRC(to_name_path(where, true), Errc::kNotFound);
  where.empty_is_base = true;
  EXPECT_OK(to_name_path(where, true));
  where.path.assign(kLongestPath, 'a');
  EXPECT_OK(to_name_path(where, true));
  where.path += 'a';
  EXPECT_ERRC(to_name_path(where, true), Errc::kNameTooLong);
  where.path = std::string("a\0b", 3);
  EXPECT_ERRC(to_name_path(where, true), Errc::kInvalidArgument);
}

TEST(PosixWhere, OnlyRelativePathsBeginAtTheBaseDirectory) {
  PathAt where;
  where.base = Handle(7);
  where.path = "a/b";
  EXPECT_EQ(to_name_path(where, true)->start, Handle(7));
  where.path = "/a/b";
  EXPECT_EQ(to_name_path(where, true)->start, kRootHandle);
  EXPECT_EQ(to_name_path(PathAt::object(Handle(9)), true)->start, Handle(9));
  EXPECT_EQ(to_name_path(PathAt::object(Handle(9)), true)->path, "");
}

TEST(PosixWhere, FlagsDecideWhetherTheLastLinkIsFollowed) {
  using wire::NamePath;
  PathAt where = PathAt::entry(Handle(3), "name");
  EXPECT_EQ(to_name_path(where, true)->flags, NamePath::kRootedLinks);
  EXPECT_EQ(to_name_path(where, false)->flags, 0);
  where.follow = true;
  EXPECT_EQ(to_name_path(where, false)->flags, NamePath::kFollowLast);
}

}  // namespace
}  // namespace spate::posix
