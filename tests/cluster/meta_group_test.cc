// SPDX-License-Identifier: Apache-2.0
// Several meta servers, of which one leads. Programs change names under faults of the servers. Each call must take
// effect once.
#include "base/expect.h"
#include "tests/cluster/meta_group_run.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kSeeds = 30;
constexpr std::uint32_t kServers = 3;  // for plants: with two backups most of them are found

TEST(MetaGroup, EachCallHasTheEffectOfOneAlthoughServersFail) {
  std::uint64_t changes = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const MetaGroupReport report = run_meta_group({seed, Plant::kNone});
    ASSERT_EQ(report.failure, "") << "seed " << seed;
    changes += report.epochs;
  }
  EXPECT_GT(changes, 2 * kSeeds);  // changes of the leader
}

class PlantedMetaGroup : public testing::TestWithParam<Plant> {};

TEST_P(PlantedMetaGroup, IsFound) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (!run_meta_group({seed, GetParam(), kServers}).failure.empty()) return;
  }
  FAIL() << "not in " << kSeeds << " runs";
}

std::string plant_name(const testing::TestParamInfo<Plant>& info) {
  std::string text(name(info.param));
  std::erase(text, '-');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedMetaGroup,
                         testing::Values(Plant::kUnreplicatedReply, Plant::kLeaseTooLong, Plant::kEpochIgnored,
                                         Plant::kAnswerForgottenByBackups),
                         plant_name);

}  // namespace
}  // namespace spate::cluster
