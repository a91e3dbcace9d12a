// SPDX-License-Identifier: Apache-2.0
// Rules of a group that random runs rarely need: each has a scene in which something is lost without it.
#include <gmock/gmock.h>

#include <functional>

#include "base/expect.h"
#include "log/log.h"
#include "tests/group/group_world.h"

namespace spate::group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Two members, and a client that increments a counter. `wrong` collects what is not as it must be.
class PlantedScene {
 public:
  PlantedScene(Defect defect, std::uint64_t seed) : world(GroupWorldOptions{seed, 2, 0, defect}) {
    world.supervise();
    if (!becomes_whole()) wrong += "the group does not become whole; ";
    first = leader().value_or(0);
    other = 1 - first;
  }

  bool run_until(const std::function<bool()>& condition, Duration at_most) {
    const MonoTime limit = world.now() + at_most;
    while (!condition() && world.now() < limit)
      std::ignore = world.turn(std::min(limit, world.now() + milliseconds(1)));
    return condition();
  }
  bool becomes_whole() {
    return run_until([this] { return leader() && world.record()->serving() == world.members(); }, seconds(60));
  }
  std::optional<std::uint32_t> leader() {
    for (std::uint32_t i = 0; i < world.members(); ++i) {
      GroupProcess* const process = world.process(i);
      if (process != nullptr && process->member().leads() && process->member().led().is_set()) return i;
    }
    return std::nullopt;
  }
  /// Nothing: the member does not answer in time.
  std::optional<std::uint64_t> increment(std::uint32_t member, std::uint32_t client, Duration at_most) {
    const auto value = std::make_shared<std::optional<std::uint64_t>>();  // shared, since it may be answered later
    world.process(member)->count({client, ++number_, 0, true, false}, [value](auto counted) { *value = counted; });
    run_until([&] { return value->has_value(); }, at_most);
    return *value;
  }
  /// From the other member and from the coordinator.
  void cut_off_first(bool is) {
    world.cut(first, other, is);
    world.cut(other, first, is);
    if (is) world.service().faults.cut_off.insert(first + 1);
    if (!is) world.service().faults.cut_off.clear();
  }
  Bytes records_of(std::uint32_t member) {
    Bytes all;
    for (const trove::BatchWrite& write : world.machine(member).disk->contents()) {
      if (write.key.front() == trove::kGroupKeys) continue;
      all.insert(all.end(), write.key.begin(), write.key.end());
      all.insert(all.end(), write.value->begin(), write.value->end());
    }
    return all;
  }

  GroupWorld world;
  std::uint32_t first = 0;  // leads at the beginning
  std::uint32_t other = 1;
  std::string wrong;

 private:
  std::uint64_t number_ = 0;
};

/// The other member has asked for the primary's place, and does not know yet that it has got it. The primary was paused
/// and goes on. If the other one acknowledged its increment, one loss of power at the only member in the record would
/// take back what a client was told.
std::string increment_after_an_accusation(Defect defect, std::uint64_t seed) {
  PlantedScene scene(defect, seed);
  GroupWorld& world = scene.world;
  coord::SimServiceFaults& faults = world.service().faults;
  const std::uint64_t epoch = world.record()->epoch;
  world.pause(scene.first, true);
  faults.cut_off.insert(scene.first + 1);
  faults.lost_answer_per_mille = 1000;
  if (!scene.run_until([&] { return world.record()->epoch > epoch; }, seconds(10))) scene.wrong += "no accusation; ";
  world.pause(scene.first, false);
  const auto told = scene.increment(scene.first, 1, milliseconds(700));
  world.crash(scene.other);
  faults = {};
  world.start(scene.other);
  if (!scene.becomes_whole()) scene.wrong += "the group does not become whole again; ";
  const auto later = scene.increment(scene.leader().value_or(0), 2, seconds(10));
  if (!later) return scene.wrong + "an increment is not answered";
  if (told && *later <= *told) scene.wrong += "an increment that was answered is lost; ";
  return scene.wrong;
}

/// The primary has carried out an increment that no other member has, and another one leads. The increment must vanish
/// from the records as it does from the log.
std::string increment_that_is_cut(Defect defect, std::uint64_t seed) {
  PlantedScene scene(defect, seed);
  if (!scene.increment(scene.first, 1, seconds(10))) scene.wrong += "an increment is not answered; ";
  scene.cut_off_first(true);
  if (scene.increment(scene.first, 7, milliseconds(200))) scene.wrong += "an increment of one member is answered; ";
  const auto another_leads = [&scene] { return scene.world.record()->primary == ServerId(scene.other + 1); };
  if (!scene.run_until(another_leads, seconds(10))) scene.wrong += "not as the scene wants it; ";
  scene.cut_off_first(false);
  if (!scene.becomes_whole()) scene.wrong += "the group does not become whole again; ";
  scene.run_until([] { return false; }, seconds(1));
  if (scene.records_of(0) != scene.records_of(1)) scene.wrong += "the members hold other records; ";
  return scene.wrong;
}

struct GroupRule {
  const char* name;
  Defect defect;
  std::string (*scene)(Defect, std::uint64_t seed);
  const char* effect;  // of the defect
};

class GroupRules : public testing::TestWithParam<GroupRule> {
 protected:
  GroupRules() { EXPECT_OK(log::set_levels("group=off,test=off")); }
  ~GroupRules() override { EXPECT_OK(log::set_levels("info")); }
};

TEST_P(GroupRules, TheSceneKeepsTheRule) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(GetParam().scene(Defect::kNone, seed), "") << seed;
}

TEST_P(GroupRules, APlantedDefectIsFound) {
  std::string found;
  for (std::uint64_t seed = 1; seed <= 20 && found.empty(); ++seed) found = GetParam().scene(GetParam().defect, seed);
  EXPECT_THAT(found, testing::HasSubstr(GetParam().effect));
}

INSTANTIATE_TEST_SUITE_P(All, GroupRules,
                         testing::Values(GroupRule{"NoAcknowledgmentAfterAnAccusation", Defect::kLateAcknowledgment,
                                                   increment_after_an_accusation,
                                                   "an increment that was answered is lost"},
                                         GroupRule{"RecordsAreCutWithTheLog", Defect::kRecordsOutliveCut,
                                                   increment_that_is_cut, "the members hold other records"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spate::group
