// SPDX-License-Identifier: Apache-2.0
#include "tests/marks/blocks.h"

#include <utility>
#include <vector>

#include "base/expect.h"

namespace spate::marks {
namespace {

TEST(Marks, WhatWasWrittenIsRightAndNothingElseIs) {
  Bytes cell(256);
  stamp(cell, 2, 4096, 7);
  EXPECT_FALSE(check(cell, 2, 4096, {7, 7}));
  EXPECT_FALSE(check(cell, 2, 4096, {3, 9}));
  EXPECT_TRUE(check(cell, 2, 4096, {8, 9})) << "older than what was acknowledged";
  EXPECT_TRUE(check(cell, 2, 4096, {0, 6})) << "newer than what was ever written";
  EXPECT_TRUE(check(cell, 1, 4096, {7, 7})) << "another file's";
  EXPECT_TRUE(check(cell, 2, 4104, {7, 7})) << "another place's";
}

TEST(Marks, OneWordOfAnotherVersionOrAnotherPlaceIsFoundWhereItIs) {
  Bytes cell(256);
  stamp(cell, 0, 0, 5);
  Bytes old(256);
  stamp(old, 0, 0, 4);
  std::copy_n(old.begin() + 64, 8, cell.begin() + 64);
  const auto wrong = check(cell, 0, 0, {5, 5});
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->offset, 64U);
  EXPECT_FALSE(check(cell, 0, 0, {4, 5})) << "a read beside a write may see both";
  std::swap_ranges(cell.begin() + 128, cell.begin() + 136, cell.begin() + 136);
  EXPECT_EQ(check(cell, 0, 0, {4, 5})->offset, 128U);
}

// Requests travel in pieces of any size: found by a run that read a word of which three bytes were still the version
// before.
TEST(Marks, AWordMayBeHalfWrittenBesideAWriteAndOnlyThen) {
  Bytes cell(64);
  stamp(cell, 4, 0, 39);
  Bytes old(64);
  stamp(old, 4, 0, 38);
  std::copy_n(old.begin() + 24, 3, cell.begin() + 24);
  EXPECT_FALSE(check(cell, 4, 0, {38, 39}));
  EXPECT_TRUE(check(cell, 4, 0, {39, 39})) << "the write was acknowledged";
  EXPECT_TRUE(check(cell, 4, 0, {39, 40})) << "the older part is of no write under way";
  std::copy_n(old.begin() + 32, 3, cell.begin() + 24);
  EXPECT_TRUE(check(cell, 4, 0, {38, 39})) << "another place's bytes";
}

TEST(Marks, ZerosAreWhatWasNeverWritten) {
  const Bytes zeros(64);
  EXPECT_FALSE(check(zeros, 0, 0, {0, 3}));
  EXPECT_TRUE(check(zeros, 0, 0, {1, 3}));
}

TEST(Marks, ARangeIsCutAtCells) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  each_cell(kShapes[1], 12000, 24688 + 8,
            [&](std::uint64_t cell, std::uint64_t from, std::uint64_t to) { seen.emplace_back(cell, to - from); });
  EXPECT_EQ(seen, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 344}, {1, 12344}, {2, 8}}));
}

}  // namespace
}  // namespace spate::marks
