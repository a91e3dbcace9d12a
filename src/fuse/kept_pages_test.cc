// SPDX-License-Identifier: Apache-2.0
#include "fuse/kept_pages.h"

#include <gtest/gtest.h>

namespace spate::fuse {
namespace {

Attributes file(std::uint64_t handle, std::uint64_t size = 10) {
  Attributes attributes;
  attributes.handle = Handle(handle);
  attributes.size = size;
  attributes.mtime = WallTime{77};
  return attributes;
}

TEST(KeptPages, AFirstOpenKeepsNothing) {
  KeptPages pages;
  EXPECT_FALSE(pages.still_true(file(5)));
  EXPECT_TRUE(pages.still_true(file(5)));
  EXPECT_FALSE(pages.still_true(file(6)));
}

TEST(KeptPages, AChangeOfSizeOrCountersDropsThem) {
  for (int what = 0; what < 2; ++what) {
    KeptPages pages;
    EXPECT_FALSE(pages.still_true(file(5)));
    Attributes changed = file(5);
    if (what == 0) changed.size = 11;
    if (what == 1) changed.change_sum = 1;
    EXPECT_FALSE(pages.still_true(changed)) << what;
    EXPECT_TRUE(pages.still_true(changed)) << what;
  }
}

TEST(KeptPages, AFileThatSomebodyWritesIsNeverKept) {
  KeptPages pages;
  EXPECT_FALSE(pages.still_true(file(5)));
  Attributes written = file(5);
  written.size_known = false;
  EXPECT_FALSE(pages.still_true(written));
  EXPECT_FALSE(pages.still_true(file(5)));
}

TEST(KeptPages, AWriteThroughThisMountDropsThem) {
  KeptPages pages;
  EXPECT_FALSE(pages.still_true(file(5)));
  pages.forget(Handle(5));
  EXPECT_FALSE(pages.still_true(file(5)));
}

TEST(KeptPages, SetTimesChangeNoData) {
  KeptPages pages;
  EXPECT_FALSE(pages.still_true(file(5)));
  Attributes touched = file(5);
  touched.mtime = WallTime{78};
  EXPECT_TRUE(pages.still_true(touched));
}

TEST(KeptPages, WhatThisMountAloneHasWrittenStays) {
  KeptPages pages;
  Attributes opened = file(5);
  opened.size_known = false;
  EXPECT_FALSE(pages.still_true(opened));
  pages.forget(Handle(5));
  Attributes written = file(5, 20);
  written.change_sum = 4;
  pages.agree(written);
  EXPECT_TRUE(pages.still_true(written));
  written.change_sum = 5;  // and then somebody else
  EXPECT_FALSE(pages.still_true(written));
}

TEST(KeptPages, AnUnknownStateIsNothingToAgreeWith) {
  KeptPages pages;
  EXPECT_FALSE(pages.still_true(file(5)));
  Attributes unsettled = file(5);
  unsettled.size_known = false;
  pages.agree(unsettled);
  EXPECT_FALSE(pages.still_true(file(5)));
}

TEST(KeptPages, RemembersABoundedNumberOfFiles) {
  KeptPages pages;
  for (std::uint64_t i = 1; i <= KeptPages::kMost + 1; ++i) EXPECT_FALSE(pages.still_true(file(i)));
  EXPECT_FALSE(pages.still_true(file(1)));
  EXPECT_TRUE(pages.still_true(file(KeptPages::kMost + 1)));
}

}  // namespace
}  // namespace spate::fuse
