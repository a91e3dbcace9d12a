// SPDX-License-Identifier: Apache-2.0
// Random runs of mirrored files. MIRROR_SEED=N runs one seed and prints each step.
#include <cstdlib>

#include "base/expect.h"
#include "tests/mirror/mirror_run.h"

namespace spate::cluster {
namespace {

void run_seeds(MirrorRunOptions options, std::uint64_t usual) {
  if (const char* const seed = std::getenv("MIRROR_SEED")) {
    options.seed = std::strtoull(seed, nullptr, 10);
    options.verbose = true;
    const MirrorRunResult result = run_mirrored(options);
    EXPECT_EQ(result.failure, "");
    return;
  }
  const char* const most = std::getenv("MIRROR_SEEDS");
  const std::uint64_t seeds = most != nullptr ? std::strtoull(most, nullptr, 10) : usual;
  for (options.seed = 1; options.seed <= seeds; ++options.seed) {
    const MirrorRunResult result = run_mirrored(options);
    EXPECT_EQ(result.failure, "") << "MIRROR_SEED=" << options.seed;
    EXPECT_GT(result.operations, 100U);
  }
}

TEST(MirrorRun, NothingFailsAndNothingIsLost) { run_seeds({}, 3); }

TEST(MirrorRun, NothingOfLargeWritesIsLost) {
  MirrorRunOptions options;
  options.large = true;
  run_seeds(options, 2);
}

TEST(MirrorRun, NothingIsLostWhenSpaceIsReserved) {
  MirrorRunOptions options;
  options.reserving = true;
  run_seeds(options, 2);
}

TEST(MirrorRun, NothingIsLostWhenServersStayAway) {
  MirrorRunOptions options;
  options.replacing = true;
  run_seeds(options, 3);
}

}  // namespace
}  // namespace spate::cluster
