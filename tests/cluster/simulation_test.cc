// SPDX-License-Identifier: Apache-2.0
// Clusters under faults, for many seeds. Planted bugs must be found. README.md explains how to examine a seed.
#include "tests/cluster/simulation.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/expect.h"
#include "log/log.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kSeedsEach = 52;
constexpr std::uint64_t kMostSeedsForAPlant = 200;

/// Keeps the log quiet, since servers under faults log much.
class Quiet : public ::testing::Environment {
 public:
  void SetUp() override { std::ignore = log::set_level("", log::Level::off); }
};
const auto* const quiet = ::testing::AddGlobalTestEnvironment(new Quiet);

class Simulated : public ::testing::TestWithParam<std::uint64_t> {};

void expect_well(const SimulationOptions& options, const SimulationReport& report) {
  EXPECT_EQ(report.failure, "") << "again: spate-sim " << replay_arguments(options);
  EXPECT_GE(report.operations, 1000U);
  EXPECT_GE(report.clients, 3U);
  EXPECT_GE(report.crashes, 2U) << "again: spate-sim " << replay_arguments(options);
}

TEST_P(Simulated, SeedsKeepThePromises) {
  std::uint64_t pages_kept = 0;
  for (std::uint64_t i = 0; i < kSeedsEach; ++i) {
    SimulationOptions options;
    options.seed = GetParam() * kSeedsEach + i + 1;
    const SimulationReport report = simulate(options);
    expect_well(options, report);
    pages_kept += report.pages_kept;
  }
  EXPECT_GE(pages_kept, kSeedsEach);
}
INSTANTIATE_TEST_SUITE_P(OfTwo, Simulated, ::testing::Values(0U, 1U));  // scripts/test-long simulation: 6000 seeds

/// Seed 1394: the meta server's machine crashes while the file system is being made, before it has served anyone.
TEST(SimulationTest, AFileSystemThatACrashKeptFromBeingMadeIsMadeAgain) {
  SimulationOptions options;
  options.seed = 1394;
  expect_well(options, simulate(options));
}

TEST(SimulationTest, TheSameSeedIsTheSameRun) {
  for (const std::uint64_t seed : {1U, 28U, 63U}) {
    SimulationOptions options;
    options.seed = seed;
    const SimulationReport first = simulate(options);
    // This memory makes the addresses of later objects differ from those of the first run.
    const std::vector<Bytes> elsewhere(100, Bytes(100'000));
    EXPECT_EQ(simulate(options).digest, first.digest) << seed;
    options.seed = seed + 1000;
    EXPECT_NE(simulate(options).digest, first.digest) << seed;
  }
}

class EveryFault : public ::testing::TestWithParam<std::size_t> {};

std::vector<Coverage::Cell> cells_of(FaultKind kind) {
  std::vector<Coverage::Cell> cells = Coverage::cells();
  std::erase_if(cells, [kind](const Coverage::Cell& cell) { return cell.first != kind; });
  return cells;
}

/// Short runs. Each is aimed at pairs of a fault and a request that no earlier run has had.
TEST_P(EveryFault, OccursInEveryRequest) {
  constexpr std::uint64_t kOperations = 300;
  constexpr std::uint64_t kMostTries = 1000;
  constexpr std::uint64_t kMostNth = 3;
  constexpr std::size_t kAimsEach = 3;
  const std::vector<Coverage::Cell> cells = cells_of(static_cast<FaultKind>(GetParam()));
  ASSERT_GT(cells.size(), 0U);
  Coverage all;
  SimulationOptions options;
  options.operations = kOperations;
  options.seed = 5000 + 2000 * GetParam();
  std::uint64_t runs = 0;
  for (std::uint64_t i = 0; i < kMostTries; ++i, ++runs) {
    std::vector<Coverage::Cell> rare = cells;
    std::erase_if(rare, [&](const Coverage::Cell& cell) { return all.count(cell) > 0; });
    if (rare.empty()) break;
    ++options.seed;
    options.aims.clear();
    for (std::size_t k = 0; k < std::min(kAimsEach, rare.size()); ++k) {
      // Every second aim strikes later and later in the run, the others at its beginning.
      const Coverage::Cell& cell = rare[(i + k) % rare.size()];
      options.aims.push_back({cell.first, cell.second, 1 + options.seed % (kMostNth + i % 2 * (i / 2))});
    }
    const SimulationReport report = simulate(options);
    EXPECT_EQ(report.failure, "") << "again: spate-sim " << replay_arguments(options);
    all.add(report.coverage);
  }
  std::printf("%s%zu cells, %llu runs\n", all.table().c_str(), cells.size(), static_cast<unsigned long long>(runs));
  for (const Coverage::Cell& cell : cells) {
    EXPECT_GT(all.count(cell), 0U) << name(cell.first) << " does not meet " << wire::op_name(cell.second);
  }
}
INSTANTIATE_TEST_SUITE_P(Of, EveryFault, ::testing::Range<std::size_t>(0, kFaultKinds),
                         [](const auto& info) { return std::string(name(static_cast<FaultKind>(info.param))); });

TEST(CoverageTest, AnAimIsParsedAsItIsPrinted) {
  const auto aim = parse_aim("killed_client:end_session:2");
  ASSERT_NE(aim, std::nullopt);
  EXPECT_EQ(to_string(*aim), "killed_client:end_session:2");
  for (const char* wrong : {"", "x:y:1", "delay:read", "delay:read:0", "delay:read:1x", "delay:nothing:1"}) {
    EXPECT_EQ(parse_aim(wrong), std::nullopt) << wrong;
  }
}

class Planted : public ::testing::TestWithParam<Plant> {};

/// The first seed of the search. It lies a little before a seed that has found the bug, if few seeds find it.
std::uint64_t first_seed(Plant plant) {
  switch (plant) {
    case Plant::kExpiredChange: return 54;
    case Plant::kUnfencedServer: return 71;
    case Plant::kHastyClaim: return 101;
    case Plant::kFalseFence: return 67;
    case Plant::kForgottenLoss: return 108;
    case Plant::kPartAsSize: return 69;
    case Plant::kUnsyncedLog: return 79;
    case Plant::kOwnFsync: return 40;
    case Plant::kShortGrace: return 21;
    case Plant::kLateCut: return 42;
    case Plant::kForgottenError: return 36;
    case Plant::kHarshRenewal: return 7;
    default: return 1;
  }
}

/// One of some seeds finds the planted bug. Without the plant, that seed reports no error.
TEST_P(Planted, IsFound) {
  SimulationOptions options;
  options.plant = GetParam();
  // This bug shows only if clients are cut off for longer than a session lasts, and go on changing data.
  if (options.plant == Plant::kLostFence) {
    for (const std::uint64_t nth : {1U, 3U, 6U, 9U})
      options.aims.push_back({FaultKind::kPartition, wire::Op::kKeepAlive, nth});
  }
  // These bugs are rare. They need such a client whose change is held up, or files on an added server; or a restart
  // between two epochs of a session with locks; or a holder that is killed during a write that ends much later.
  constexpr std::array kRare{Plant::kExpiredChange, Plant::kUnfencedServer, Plant::kHastyClaim, Plant::kFalseFence};
  if (std::find(kRare.begin(), kRare.end(), options.plant) != kRare.end()) options.operations = 3000;
  if (options.plant == Plant::kFalseFence) {
    for (std::uint64_t nth = 20; nth <= 200; nth += 10)
      options.aims.push_back({FaultKind::kStuckHolder, wire::Op::kWrite, nth});
  }
  const std::uint64_t first = first_seed(options.plant);
  for (options.seed = first; options.seed < first + kMostSeedsForAPlant; ++options.seed) {
    const SimulationReport report = simulate(options);
    if (report.failure.empty()) continue;
    RecordProperty("seed", std::to_string(options.seed));
    std::printf("%s: seed %llu: %s\n", std::string(name(options.plant)).c_str(),
                static_cast<unsigned long long>(options.seed), report.failure.c_str());
    options.plant = Plant::kNone;
    EXPECT_EQ(simulate(options).failure, "");
    return;
  }
  FAIL() << name(options.plant) << " was not found by " << kMostSeedsForAPlant << " seeds";
}
INSTANTIATE_TEST_SUITE_P(Each, Planted,
                         ::testing::Values(Plant::kSkippedFsync, Plant::kForgottenAnswer, Plant::kStaleResend,
                                           Plant::kLostFence, Plant::kRenameLoop, Plant::kForgottenRecall,
                                           Plant::kEndlessIntent, Plant::kWildClock, Plant::kFalseFence,
                                           Plant::kUnsyncedLog, Plant::kSmallSize, Plant::kForgottenLoss,
                                           Plant::kOwnFsync, Plant::kHarshRenewal, Plant::kKeptPages,
                                           Plant::kExpiredChange, Plant::kShortGrace, Plant::kHastyClaim,
                                           Plant::kLateCut, Plant::kForgottenError, Plant::kSplitWrite,
                                           Plant::kForgottenServer, Plant::kUnfencedServer, Plant::kPartAsSize),
                         [](const auto& info) {
                           std::string text(name(info.param));
                           std::erase(text, '-');
                           return text;
                         });

}  // namespace
}  // namespace spate::cluster
