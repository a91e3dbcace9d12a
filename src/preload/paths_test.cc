// SPDX-License-Identifier: Apache-2.0
#include "preload/paths.h"

#include "base/expect.h"

namespace spate::preload {
namespace {

TEST(PreloadPaths, PathsWithoutDotsAndDoubleSlashesAreStraight) {
  for (const char* path : {"/a", "/a/b", "/spate/file.txt", "/a/b.c/d..e"}) {
    EXPECT_TRUE(is_straight(path)) << path;
    EXPECT_EQ(straighten(path), path);
  }
  for (const char* path :
       {"", "/", "a", "a/b", "/a/", "//a", "/a//b", "/./a", "/a/.", "/a/..", "/a/../b", "/a/./b", "/.a"}) {
    EXPECT_FALSE(is_straight(path)) << path;
  }
}

TEST(PreloadPaths, StraightenRemovesRedundantComponents) {
  EXPECT_EQ(straighten("/"), "/");
  EXPECT_EQ(straighten("//a/./b/"), "/a/b");
  EXPECT_EQ(straighten("/a/../../b"), "/b");
  EXPECT_EQ(straighten("/a/..."), "/a/...");
}

TEST(PreloadPaths, OnlyAPathAboveItsRootIsReportedAsOutside) {
  EXPECT_FALSE(climbs_out("a/../b", 0));
  EXPECT_FALSE(climbs_out("../b", 1));
  EXPECT_TRUE(climbs_out("..", 0));
  EXPECT_TRUE(climbs_out("a/../../b", 0));
  EXPECT_TRUE(climbs_out("../..", 1));
  EXPECT_EQ(depth_of("/a//b/./c"), 3U);
}

TEST(PreloadPaths, APrefixEndsAtASlash) {
  EXPECT_TRUE(is_below("/spate", "/spate"));
  EXPECT_TRUE(is_below("/spate/a", "/spate"));
  EXPECT_FALSE(is_below("/spatex", "/spate"));
  EXPECT_FALSE(is_below("/spat", "/spate"));
}

TEST(PreloadPaths, ADescriptorHasANameInProc) {
  EXPECT_EQ(named_descriptor("/proc/self/fd/7", 42), 7);
  EXPECT_EQ(named_descriptor("/proc/42/fd/7", 42), 7);
  EXPECT_EQ(named_descriptor("/proc/43/fd/7", 42), -1);
  EXPECT_EQ(named_descriptor("/dev/fd/12", 42), 12);
  EXPECT_EQ(named_descriptor("/dev/stderr", 42), 2);
  EXPECT_EQ(named_descriptor("/dev/fd/", 42), -1);
  EXPECT_EQ(named_descriptor("/dev/fd/7x", 42), -1);
  EXPECT_EQ(named_descriptor("/dev/fd/99999999999", 42), -1);
}

}  // namespace
}  // namespace spate::preload
