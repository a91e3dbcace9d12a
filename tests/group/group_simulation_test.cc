// SPDX-License-Identifier: Apache-2.0
#include "base/expect.h"
#include "log/log.h"
#include "tests/group/group_run.h"

namespace spate::group {
namespace {

constexpr std::uint64_t kSeeds = 500;

struct NamedDefect {
  Defect defect;
  const char* name;
  std::uint64_t first_seed = 1;  // of the search: a little before one that finds it, if few do
};

std::string name_of(const testing::TestParamInfo<NamedDefect>& info) { return info.param.name; }

class GroupSimulation : public testing::Test {
 protected:
  GroupSimulation() { EXPECT_OK(log::set_levels("group=off,test=off")); }
  ~GroupSimulation() override { EXPECT_OK(log::set_levels("info")); }
};

class PlantedGroupSimulation : public GroupSimulation, public testing::WithParamInterface<NamedDefect> {};

TEST_F(GroupSimulation, NothingAnsweredIsLostOrRunTwiceAndAllMembersServeAgain) {
  std::uint64_t losses = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const GroupRunResult result = run_group({seed, Defect::kNone});
    ASSERT_EQ(result.failure, "") << "seed " << seed;
    losses += result.losses;
  }
  EXPECT_GT(losses, 0U);  // crashes of all machines at once
}

TEST_F(GroupSimulation, SameSeedSameRun) {
  const GroupRunResult first = run_group({7, Defect::kNone});
  const GroupRunResult second = run_group({7, Defect::kNone});
  EXPECT_EQ(first.epochs, second.epochs);
  EXPECT_EQ(first.ended, second.ended);
}

TEST_P(PlantedGroupSimulation, IsFound) {
  const std::uint64_t first = GetParam().first_seed;
  for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
    if (run_group({seed, GetParam().defect}).failure.empty()) continue;
    EXPECT_EQ(run_group({seed, Defect::kNone}).failure, "") << "seed " << seed;
    return;
  }
  FAIL() << "not in " << kSeeds << " runs";
}

INSTANTIATE_TEST_SUITE_P(Defects, PlantedGroupSimulation,
                         testing::Values(NamedDefect{Defect::kEarlyReply, "EarlyReply"},
                                         NamedDefect{Defect::kEpochUnchecked, "EpochUnchecked"},
                                         NamedDefect{Defect::kTakeOverUnasked, "TakeOverUnasked"},
                                         NamedDefect{Defect::kLongLease, "LongLease"},
                                         NamedDefect{Defect::kLogNotCut, "LogNotCut"},
                                         NamedDefect{Defect::kUnknownTailLeads, "UnknownTailLeads"},
                                         NamedDefect{Defect::kAnswerNotShipped, "AnswerNotShipped"},
                                         NamedDefect{Defect::kJoiningServes, "JoiningServes"},
                                         NamedDefect{Defect::kMinIgnored, "MinIgnored"},
                                         NamedDefect{Defect::kEarlyRead, "EarlyRead"},
                                         NamedDefect{Defect::kUnknownIsNo, "UnknownIsNo", 7100}),
                         name_of);

}  // namespace
}  // namespace spate::group
