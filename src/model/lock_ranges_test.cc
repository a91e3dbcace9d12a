// SPDX-License-Identifier: Apache-2.0
#include "model/lock_ranges.h"

#include <array>
#include <optional>

#include "base/expect.h"
#include "base/random.h"

namespace spate {
namespace {

constexpr std::uint64_t kBytes = 24;

/// LockRanges as the test computes them, byte by byte.
struct Model {
  std::array<LockMode, kBytes> bytes{};
  void set(LockRange range, LockMode mode) {
    for (std::uint64_t i = range.first; i <= std::min(range.last, kBytes - 1); ++i) bytes[i] = mode;
  }
  std::vector<HeldLock> pieces() const {
    std::vector<HeldLock> out;
    for (std::uint64_t i = 0; i < kBytes; ++i) {
      if (bytes[i] == LockMode::kNone) continue;
      if (i > 0 && bytes[i - 1] == bytes[i]) {
        out.back().range.last = i;
      } else {
        out.push_back({{i, i}, bytes[i]});
      }
    }
    return out;
  }
};

TEST(LockRanges, AgreeWithAModelByteByByte) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SeededRandom random(seed);
    LockRanges ranges;
    Model model;
    for (int step = 0; step < 200; ++step) {
      LockRange range{random.below(kBytes), random.below(kBytes)};
      if (range.first > range.last) std::swap(range.first, range.last);
      const auto mode = static_cast<LockMode>(random.below(3));
      const std::size_t before = ranges.pieces().size();
      const std::size_t expected = ranges.pieces_after(range, mode);
      ranges.set(range, mode);
      model.set(range, mode);
      ASSERT_EQ(ranges.pieces(), model.pieces()) << "seed " << seed << " step " << step;
      ASSERT_EQ(ranges.pieces().size(), expected);
      ASSERT_LE(ranges.pieces().size(), before + 2);
      const LockRange asked{range.first / 2, range.last};
      bool all = true;
      bool stands = false;
      for (std::uint64_t i = asked.first; i <= asked.last; ++i) {
        all = all && model.bytes[i] == LockMode::kShared;
        stands = stands || model.bytes[i] == LockMode::kExclusive;
      }
      ASSERT_EQ(ranges.covers(asked, LockMode::kShared), all);
      ASSERT_EQ(ranges.in_the_way_of(asked, LockMode::kShared).has_value(), stands);
    }
  }
}

TEST(LockRanges, ToTheEndCoverAnyFutureSize) {
  LockRanges ranges;
  ranges.set({5, LockRange::kToEnd}, LockMode::kExclusive);
  ranges.set({0, 4}, LockMode::kExclusive);
  EXPECT_TRUE(ranges.covers({0, LockRange::kToEnd}, LockMode::kExclusive));
  ranges.set({LockRange::kToEnd, LockRange::kToEnd}, LockMode::kNone);
  const std::vector<HeldLock> left{{{0, LockRange::kToEnd - 1}, LockMode::kExclusive}};
  EXPECT_EQ(ranges.pieces(), left);
  ranges.set({0, LockRange::kToEnd}, LockMode::kNone);
  EXPECT_EQ(ranges.pieces(), std::vector<HeldLock>());
}

TEST(LockRanges, ReportTheLowestConflict) {
  LockRanges ranges;
  ranges.set({0, 9}, LockMode::kShared);
  ranges.set({20, 29}, LockMode::kExclusive);
  EXPECT_EQ(ranges.in_the_way_of({0, 19}, LockMode::kShared), std::nullopt);
  EXPECT_EQ(ranges.in_the_way_of({5, 100}, LockMode::kShared)->range, (LockRange{20, 29}));
  EXPECT_EQ(ranges.in_the_way_of({5, 100}, LockMode::kExclusive)->range, (LockRange{0, 9}));
  EXPECT_EQ(ranges.in_the_way_of({0, 100}, LockMode::kNone), std::nullopt);
}

}  // namespace
}  // namespace spate
