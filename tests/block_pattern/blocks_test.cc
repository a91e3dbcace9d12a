// SPDX-License-Identifier: Apache-2.0
#include "tests/block_pattern/blocks.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/expect.h"

namespace spate::block_pattern {
namespace {

TEST(BlockPattern, OnlyTheWrittenBlockIsAccepted) {
  Bytes cell(256);
  stamp(cell, 2, 4096, 7);
  EXPECT_EQ(check(cell, 2, 4096, {7, 7}), std::nullopt);
  EXPECT_EQ(check(cell, 2, 4096, {3, 9}), std::nullopt);
  EXPECT_NE(check(cell, 2, 4096, {8, 9}), std::nullopt) << "older than what was acknowledged";
  EXPECT_NE(check(cell, 2, 4096, {0, 6}), std::nullopt) << "newer than what was ever written";
  EXPECT_NE(check(cell, 1, 4096, {7, 7}), std::nullopt) << "another file's";
  EXPECT_NE(check(cell, 2, 4104, {7, 7}), std::nullopt) << "another place's";
}

TEST(BlockPattern, AWordOfAnotherVersionOrPlaceIsReportedAtItsOffset) {
  Bytes cell(256);
  stamp(cell, 0, 0, 5);
  Bytes old(256);
  stamp(old, 0, 0, 4);
  std::copy_n(old.begin() + 64, 8, cell.begin() + 64);
  const auto wrong = check(cell, 0, 0, {5, 5});
  ASSERT_NE(wrong, std::nullopt);
  EXPECT_EQ(wrong->offset, 64U);
  EXPECT_EQ(check(cell, 0, 0, {4, 5}), std::nullopt) << "a read beside a write may see both";
  std::swap_ranges(cell.begin() + 128, cell.begin() + 136, cell.begin() + 136);
  EXPECT_EQ(check(cell, 0, 0, {4, 5})->offset, 128U);
}

// Requests travel in pieces of any size. A run once read a word of which three bytes were still of the previous
// version.
TEST(BlockPattern, AHalfWrittenWordIsAcceptedOnlyDuringAWrite) {
  Bytes cell(64);
  stamp(cell, 4, 0, 39);
  Bytes old(64);
  stamp(old, 4, 0, 38);
  std::copy_n(old.begin() + 24, 3, cell.begin() + 24);
  EXPECT_EQ(check(cell, 4, 0, {38, 39}), std::nullopt);
  EXPECT_NE(check(cell, 4, 0, {39, 39}), std::nullopt) << "the write was acknowledged";
  EXPECT_NE(check(cell, 4, 0, {39, 40}), std::nullopt) << "the older part is of no write under way";
  std::copy_n(old.begin() + 32, 3, cell.begin() + 24);
  EXPECT_NE(check(cell, 4, 0, {38, 39}), std::nullopt) << "another place's bytes";
}

TEST(BlockPattern, ZerosMeanNeverWritten) {
  const Bytes zeros(64);
  EXPECT_EQ(check(zeros, 0, 0, {0, 3}), std::nullopt);
  EXPECT_NE(check(zeros, 0, 0, {1, 3}), std::nullopt);
}

TEST(BlockPattern, ARangeIsCutAtCells) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  each_cell(kShapes[1], 12000, 24688 + 8,
            [&](std::uint64_t cell, std::uint64_t from, std::uint64_t to) { seen.emplace_back(cell, to - from); });
  EXPECT_EQ(seen, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 344}, {1, 12344}, {2, 8}}));
}

}  // namespace
}  // namespace spate::block_pattern
