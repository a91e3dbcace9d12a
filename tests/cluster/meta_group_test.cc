// SPDX-License-Identifier: Apache-2.0
// Several meta servers, of which one leads. Programs change names under faults of the servers. Each call must take
// effect once.
#include <functional>

#include "base/expect.h"
#include "tests/cluster/meta_group_run.h"
#include "tests/cluster/world.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kSeeds = 30;
constexpr std::uint64_t kSeedsOfTwo = 30;  // scripts/test-long simulation: 4000
constexpr std::uint32_t kServers = 3;      // for plants: with two backups most of them are found

TEST(MetaGroup, EachCallHasTheEffectOfOneAlthoughServersFail) {
  std::uint64_t changes = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const MetaGroupReport report = run_meta_group({seed, Plant::kNone});
    ASSERT_EQ(report.failure, "") << "seed " << seed;
    changes += report.epochs;
  }
  EXPECT_GT(changes, 2 * kSeeds);  // changes of the leader
}

/// With two, one server is often the only one that serves. Three rarely come to that.
TEST(MetaGroup, EachCallOfTwoServersHasTheEffectOfOneAlthoughTheyFail) {
  for (std::uint64_t seed = 1; seed <= kSeedsOfTwo; ++seed) {
    ASSERT_EQ(run_meta_group({seed, Plant::kNone, 2}).failure, "") << "seed " << seed;
  }
}

/// If its machine crashed, acknowledged changes would be lost: the runs above must not take such a group for whole.
TEST(MetaGroup, TwoServersThatBothBelieveToLeadAreNotWhole) {
  WorldOptions options;
  options.meta_servers = 2;
  options.io_servers = 1;
  World world(options);
  const auto until = [&world](const std::function<bool()>& condition) {
    const MonoTime limit = world.now() + std::chrono::seconds(20);
    while (!condition() && world.now() < limit) std::ignore = world.turn(limit);
    return condition();
  };
  ASSERT_TRUE(until([&] { return world.is_whole(); })) << "the group does not become whole";
  const std::vector<ServerId> metas = world.meta_servers();
  const ServerId first = world.leader();
  const ServerId second = metas.front() == first ? metas.back() : metas.front();
  world.fabric().links().partition(first.value, second.value, true);
  world.coordination().faults.cut_off.insert(first.value);
  ASSERT_TRUE(until([&] { return world.server(second)->leads(); })) << "nobody takes the place of the isolated server";
  ASSERT_TRUE(world.server(first)->leads()) << "it has learnt that another one leads; this tests nothing";
  EXPECT_FALSE(world.is_whole()) << "two servers believe that they lead";
  world.fabric().links().partition(first.value, second.value, false);
  world.coordination().faults.cut_off.clear();
  EXPECT_TRUE(until([&] { return world.is_whole(); })) << "the group does not become whole again";
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
                                         Plant::kAnswerForgottenByBackups, Plant::kRecordsOutliveCut),
                         plant_name);

}  // namespace
}  // namespace spate::cluster
