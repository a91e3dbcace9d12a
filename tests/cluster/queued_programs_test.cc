// SPDX-License-Identifier: Apache-2.0
// Random programs on several clients, some of which queue changes of names. SPATE_SEED and SPATE_SEEDS: which programs.
#include <gtest/gtest-spi.h>

#include <cstdlib>

#include "model/defect.h"
#include "tests/cluster/queued_crash.h"

namespace spate::cluster {
namespace {

/// The number in a variable of the environment.
std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(QueuedPrograms, EachClientSeesEverythingThatWasAnswered) {
  std::uint64_t local = 0;
  std::uint64_t early = 0;
  const std::uint64_t first = number_in("SPATE_SEED", 1);
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t i = 0; i < number_in("SPATE_SEEDS", 40); ++i) seeds.push_back(first + i);
  seeds.push_back(889);  // in which a client could queue a change before it knew its number
  for (const std::uint64_t seed : seeds) {
    if (HasFailure()) break;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    QueuedProgram program(seed);
    program.run(400);
    local += program.local();
    early += program.early_writes();
  }
  EXPECT_GT(local, 1000U) << "hardly anything was answered locally";
  EXPECT_GT(early, 300U) << "hardly a write was early";
}

TEST(QueuedPrograms, ACrashOfTheMachineTakesTheLatestChangesOnly) {
  const std::uint64_t first = number_in("SPATE_SEED", 1);
  const std::uint64_t seeds = number_in("SPATE_SEEDS", 30);
  std::size_t lost = 0;
  for (std::uint64_t i = 0; i < seeds && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("seed {}", first + i));
    QueuedCrash program(first + i);
    lost += program.run(60);
  }
  if (seeds >= 30) EXPECT_GT(lost, seeds / 4) << "hardly anything was lost";
}

/// Whether a program with the defect gets a wrong answer.
bool is_found(Defect defect) {
  ::testing::TestPartResultArray failures;
  const ::testing::ScopedFakeTestPartResultReporter intercepts(&failures);
  for (std::uint64_t seed = 1; seed <= 40 && failures.size() == 0; ++seed) {
    QueuedProgram program(seed);
    planted_defect = defect;
    program.run(400, [&] { return failures.size() > 0; });
    planted_defect = Defect::kNone;
  }
  return failures.size() > 0;
}

TEST(QueuedPrograms, FindPlantedDefects) {
  EXPECT_TRUE(is_found(Defect::kUnrecalledByRead)) << "a read that recalls nothing";
  EXPECT_TRUE(is_found(Defect::kQueuedTwice)) << "a change that is made twice";
  EXPECT_TRUE(is_found(Defect::kCloseBeforeData)) << "a close that is sent before the data";
  EXPECT_TRUE(is_found(Defect::kDataTakesTimes)) << "data that take the place of times that were set";
}

}  // namespace
}  // namespace spate::cluster
