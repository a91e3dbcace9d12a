// SPDX-License-Identifier: Apache-2.0
#include "fuse/file_names.h"

#include "base/expect.h"

namespace spate::fuse {
namespace {

constexpr Handle kItsDirectory{10};
constexpr Handle kNamedFile{11};

TEST(FileNamesTest, APathIsMadeOfTheNamesThatWereUsedLast) {
  FileNames names;
  EXPECT_EQ(names.path_of(kNamedFile), "");
  names.note(kNamedFile, kItsDirectory, "file");
  EXPECT_EQ(names.path_of(kNamedFile), "inode 10/file");
  names.note(kItsDirectory, kRootHandle, "dir");
  EXPECT_EQ(names.path_of(kNamedFile), "dir/file");
  names.note(kNamedFile, kRootHandle, "moved");
  EXPECT_EQ(names.path_of(kNamedFile), "moved");
}

TEST(FileNamesTest, NamesThatWereNotedLongAgoAreForgotten) {
  FileNames names(2);
  for (std::uint64_t number = 100; number < 106; ++number) names.note(Handle(number), kRootHandle, "n");
  EXPECT_EQ(names.path_of(Handle(100)), "");
  EXPECT_EQ(names.path_of(Handle(104)), "n");
  EXPECT_EQ(names.path_of(Handle(105)), "n");
}

TEST(FileNamesTest, ACircleOfNamesEnds) {
  FileNames names;
  names.note(kNamedFile, kItsDirectory, "a");
  names.note(kItsDirectory, kNamedFile, "b");
  EXPECT_EQ(names.path_of(kNamedFile).substr(0, 4), "b/a/") << "the names that are out of date";
}

}  // namespace
}  // namespace spate::fuse
