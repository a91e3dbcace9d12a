// SPDX-License-Identifier: Apache-2.0
#include "tools/progress.h"

#include <gmock/gmock.h>

#include "base/expect.h"

namespace spate::tools {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

TEST(ProgressLine, BarShareRateAndTimeLeft) {
  Progress progress{2, 600 * kMiB, 4, 1000 * kMiB, true};
  EXPECT_EQ(progress_line(progress, 6.0), "[############        ] 60%  600 MiB/0.98 GiB  100 MiB/s  4 s left");
  progress.total_bytes = 900 * kMiB;
  EXPECT_EQ(progress_line(progress, 6.0), "[#############       ] 66%  600/900 MiB  100 MiB/s  3 s left");
}

TEST(ProgressLine, NoEstimateWhileTheTotalsGrow) {
  const Progress progress{2, 600 * kMiB, 4, 900 * kMiB, false};
  EXPECT_EQ(progress_line(progress, 6.0), "[#############       ] 66%  600/900 MiB  100 MiB/s");
}

TEST(ProgressLine, WithoutTotalsOrBytes) {
  EXPECT_EQ(progress_line(Progress{3, 2 * kMiB, 0, 0, false}, 1.0), "3 files, 2.00 MiB, 2.00 MiB/s");
  EXPECT_EQ(progress_line(Progress{1, 0, 2, 0, true}, 5.0), "[##########          ] 50%  0/0 B  0 B/s  5 s left");
}

TEST(ProgressLine, MoreThanTheTotalIsShownAsAll) {
  const Progress progress{1, 4 * kMiB, 1, 2 * kMiB, true};
  EXPECT_EQ(progress_line(progress, 1.0), "[####################] 100%  4.00/4.00 MiB  4.00 MiB/s  0 s left");
}

TEST(ProgressLine, LongTimesAreRounded) {
  EXPECT_THAT(progress_line(Progress{0, kMiB, 1, 100 * kMiB, true}, 10.0), testing::EndsWith("  17 min left"));
  EXPECT_THAT(progress_line(Progress{0, kMiB, 1, 100 * kMiB, true}, 1000.0), testing::EndsWith("  28 h left"));
}

TEST(ProgressSum, FilesBytesTimeAndRate) {
  EXPECT_EQ(progress_sum(Progress{120, 200 * kMiB, 0, 0, false}, 2.0), "120 files, 200 MiB in 2.00 s, 100 MiB/s");
}

}  // namespace
}  // namespace spate::tools
