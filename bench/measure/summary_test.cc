// SPDX-License-Identifier: Apache-2.0
#include "measure/summary.h"

#include "base/expect.h"

namespace spate::measure {
namespace {

TEST(Summary, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(Summary::of({3, 1, 2}).median, 2);
  EXPECT_EQ(Summary::of({4, 1, 2, 3}).median, 2.5);
}

TEST(Summary, SpreadIsTheShareBetweenExtremes) {
  const Summary summary = Summary::of({10, 8, 12});
  EXPECT_EQ(summary.low, 8);
  EXPECT_EQ(summary.high, 12);
  EXPECT_DOUBLE_EQ(summary.spread(), 0.4);
}

TEST(Summary, AnEmptySampleIsZero) {
  EXPECT_EQ(Summary::of({}).runs, 0U);
  EXPECT_EQ(Summary::of({}).spread(), 0);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

TEST(Percentile, NearestRank) {
  const std::vector<double> values{5, 1, 4, 2, 3};
  EXPECT_EQ(percentile(values, 0), 1);
  EXPECT_EQ(percentile(values, 0.2), 1);
  EXPECT_EQ(percentile(values, 0.5), 3);
  EXPECT_EQ(percentile(values, 0.99), 5);
  EXPECT_EQ(percentile(values, 1), 5);
}

}  // namespace
}  // namespace spate::measure
