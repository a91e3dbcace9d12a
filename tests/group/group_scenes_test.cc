// SPDX-License-Identifier: Apache-2.0
// Single faults of a group, step by step: disks fail, hang, or are full; a coordinator is restored from a copy.
#include "base/expect.h"
#include "log/log.h"
#include "tests/group/group_world.h"

namespace spate::group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class GroupScene : public testing::Test {
 protected:
  GroupScene() { EXPECT_OK(log::set_levels("group=off,test=off")); }
  ~GroupScene() override {
    world_.reset();
    EXPECT_OK(log::set_levels("info"));
  }

  void make(std::uint32_t members, std::uint64_t seed = 1) {
    world_ = std::make_unique<GroupWorld>(GroupWorldOptions{seed, members, 0, defect_});
    world_->supervise();
    run_until([this] { return all_serve() && leader().has_value(); }, seconds(20));
    ASSERT_TRUE(all_serve());
    ASSERT_NE(leader(), std::nullopt);
  }
  template <class Condition>
  bool run_until(const Condition& condition, Duration timeout) {
    const MonoTime limit = world_->now() + timeout;
    while (!condition() && world_->now() < limit) std::ignore = world_->turn(limit);
    return condition();
  }
  void run_for(Duration span) {
    run_until([] { return false; }, span);
  }
  std::optional<std::uint32_t> leader() {
    for (std::uint32_t i = 0; i < world_->members(); ++i) {
      GroupProcess* const process = world_->process(i);
      if (process != nullptr && process->member().leads() && process->member().led().is_set()) return i;
    }
    return std::nullopt;
  }
  bool serves(std::uint32_t member) { return world_->record()->serves(ServerId(member + 1)); }
  bool all_serve() { return world_->record() && world_->record()->serving() == world_->members(); }
  /// Sends an increment to the leader. Returns how long it took; nothing: no answer within 10 s.
  std::optional<Duration> increment(bool durable = false) {
    const MonoTime begin = world_->now();
    const auto value = std::make_shared<std::optional<std::uint64_t>>();  // shared, since it may be answered later
    world_->process(*leader())->count({1, ++number_, 0, true, durable}, [value](auto counted) { *value = counted; });
    if (!run_until([&] { return value->has_value(); }, seconds(10))) return std::nullopt;
    last_ = **value;
    return world_->now() - begin;
  }
  /// Sends the same increment to the leader as often as it is called. Nothing: the leader does not answer it.
  std::optional<std::uint64_t> increment_or_nothing() {
    const auto value = std::make_shared<std::optional<std::uint64_t>>();
    const auto told = std::make_shared<bool>(false);
    world_->process(*leader())->count({1, 1, 0, true, false}, [value, told](auto counted) {
      *value = counted;
      *told = true;
    });
    EXPECT_TRUE(run_until([&] { return *told; }, seconds(4))) << "the request neither succeeds nor fails";
    if (*value) last_ = **value;
    return *value;
  }
  trove::SimKeyvalFaults& faults(std::uint32_t member) { return world_->machine(member).disk->faults; }
  std::uint32_t backup() { return *leader() == 0 ? 1 : 0; }

  Defect defect_ = Defect::kNone;  // planted by make()
  std::unique_ptr<GroupWorld> world_;
  std::uint64_t number_ = 0;
  std::uint64_t last_ = 0;
};

TEST_F(GroupScene, APrimaryWhoseDiskFailsIsFollowedByAnother) {
  make(2);
  const std::uint32_t first = *leader();
  faults(first).commit_error_per_mille = 1000;
  world_->process(first)->count({1, 1, 0, true, false}, [](auto) {});
  EXPECT_TRUE(run_until([&] { return leader() && *leader() != first; }, seconds(4)));
}

TEST_F(GroupScene, APrimaryWhoseRolesCannotStartIsFollowedByAnother) {
  make(2);
  const std::uint32_t first = *leader();
  world_->process(first)->member().failed(Error(Errc::kCorrupt, "a record"));
  EXPECT_TRUE(run_until([&] { return leader() && *leader() != first; }, seconds(4)));
}

/// The record names it alone, but what it had is gone. As a primary it would replace the other's copy by nothing.
TEST_F(GroupScene, TheOnlyMemberThatServesDoesNotLeadWithAnEmptyStore) {
  make(2);
  const std::uint32_t alone = *leader();
  const std::uint32_t other = backup();
  world_->kill(other);
  EXPECT_TRUE(run_until([&] { return !serves(other); }, seconds(10))) << "a dead backup is not removed";
  EXPECT_TRUE(increment(true).has_value()) << "it does not go on alone";
  world_->wipe(alone);
  world_->start(alone);
  world_->start(other);
  EXPECT_FALSE(run_until([&] { return leader().has_value(); }, seconds(180))) << "a member leads";
}

/// As `spate coord restore --without` does: a member that does not serve leads, although it lacks something.
class AcceptedLoss : public GroupScene {
 protected:
  /// One member goes on alone.
  void begin() {
    make(2);
    std::ignore = increment();
    newer_ = *leader();
    older_ = backup();
    world_->kill(older_);
    EXPECT_TRUE(run_until([&] { return !serves(older_); }, seconds(10))) << "a dead backup is not removed";
    std::ignore = increment();
    std::ignore = increment();
    EXPECT_EQ(last_, 3U);
  }
  void accept() {
    GroupRecord record = *world_->record();
    ++record.epoch;
    ++record.loss;
    record.primary = ServerId(older_ + 1);
    for (MemberEntry& member : record.members) member.serving = member.server == record.primary;
    const std::string key = record_key(1);  // the world's group
    coord::Change change;
    change.compare(key, world_->service().read(key).find(key)->revision).put(key, encode(record));
    ASSERT_OK(world_->service().make(change));
  }
  /// A member stands still, and goes on when the other one leads. Returns how many requests it answers then.
  int answers_of_a_sleeper() {
    begin();
    world_->pause(newer_, true);
    world_->start(older_);
    run_for(seconds(5));  // so long the command waits for its answer
    accept();
    EXPECT_TRUE(run_until([&] { return world_->process(older_)->member().led().is_set(); }, seconds(30)))
        << "the older member does not lead";
    const auto answers = std::make_shared<int>(0);
    for (const std::uint32_t client : {7U, 8U}) {
      const CountRequest request{client, 1, 0, client == 7, false};
      world_->process(newer_)->count(request, [answers](auto counted) { *answers += counted ? 1 : 0; });
    }
    world_->pause(newer_, false);
    run_for(seconds(10));
    return *answers;
  }

  std::uint32_t newer_ = 0;
  std::uint32_t older_ = 0;
};

TEST_F(AcceptedLoss, TheOlderMemberLeadsAndTheLostOneFollowsIt) {
  begin();
  world_->kill(newer_);
  world_->start(older_);
  EXPECT_FALSE(run_until([&] { return leader().has_value(); }, seconds(180))) << "an older member leads by itself";
  accept();
  ASSERT_TRUE(run_until([&] { return leader() == older_; }, seconds(30))) << "the older member does not lead";
  std::ignore = increment();
  EXPECT_EQ(last_, 2U) << "two increments are lost";
  world_->start(newer_);
  ASSERT_TRUE(run_until([&] { return all_serve(); }, seconds(60))) << "the lost member does not return";
  EXPECT_EQ(leader(), older_);
  world_->kill(older_);
  ASSERT_TRUE(run_until([&] { return leader() == newer_; }, seconds(10))) << "the newer member does not lead";
  std::ignore = increment();
  EXPECT_EQ(last_, 3U) << "what was lost is back";
}

TEST_F(AcceptedLoss, AMemberThatStoodStillAnswersNothing) { EXPECT_EQ(answers_of_a_sleeper(), 0); }

TEST_F(AcceptedLoss, AMemberThatStandsStillAndGoesOnIsFound) {
  defect_ = Defect::kSleeperLeads;
  EXPECT_NE(answers_of_a_sleeper(), 0);
}

/// Nobody has taken its place, so it goes on as soon as it knows.
TEST_F(AcceptedLoss, AMemberThatStoodStillGoesOnWhenNobodyElseLeads) {
  begin();
  world_->pause(newer_, true);
  run_for(seconds(60));
  world_->pause(newer_, false);
  const auto took = increment();
  ASSERT_TRUE(took.has_value()) << "nothing was changed";
  EXPECT_LE(*took, seconds(2));
  EXPECT_EQ(last_, 4U);
}

/// The rest of its log does not say that it has begun to lead. It holds all there is, so it has not lost its store.
TEST_F(GroupScene, MembersThatLosePowerAsTheyBeginToLeadTakeUpTheirWork) {
  std::uint32_t begun = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    world_.reset();
    world_ = std::make_unique<GroupWorld>(GroupWorldOptions{seed, 2, 0, Defect::kNone});
    world_->supervise();
    ASSERT_TRUE(run_until([this] { return world_->record()->epoch > 1; }, seconds(20))) << "seed " << seed;
    run_for(milliseconds(seed % 4 == 0 ? 0 : world_->random().below(100)));
    begun += leader().has_value() ? 1 : 0;
    for (const std::uint32_t member : {0U, 1U}) world_->crash(member);
    for (const std::uint32_t member : {0U, 1U}) world_->start(member);
    ASSERT_TRUE(run_until([this] { return leader() && all_serve(); }, seconds(60))) << "nobody leads, seed " << seed;
    number_ = 0;
    ASSERT_TRUE(increment(true).has_value()) << "seed " << seed;
  }
  EXPECT_GT(begun, 10U);
}

/// A client that reaches the old primary alone has to ask the others. It cannot know that the old one only waits.
TEST_F(GroupScene, APrimaryThatReachesNeitherTheOthersNorTheCoordinatorSendsItsClientsAway) {
  make(3);
  const std::uint32_t first = *leader();
  world_->service().faults.cut_off.insert(first + 1);
  for (std::uint32_t other = 0; other < 3; ++other) {
    world_->cut(first, other, true);
    world_->cut(other, first, true);
  }
  bool told = false;
  world_->process(first)->count({1, 1, 0, true, false}, [&told](auto value) {
    told = true;
    EXPECT_FALSE(value) << "answered though another one may lead";
  });
  EXPECT_TRUE(run_until([&] { return told; }, seconds(4))) << "the client is kept waiting";
}

/// As long as nobody can take its place, it has to go on as soon as it reaches the others again.
TEST_F(GroupScene, APrimaryThatHasSentItsClientsAwayAnswersAgainWhenItReachesTheOthers) {
  make(2);
  const std::uint32_t first = *leader();
  world_->service().faults.away = true;
  world_->cut(first, backup(), true);
  EXPECT_FALSE(increment_or_nothing()) << "answered though the backup lacks it";
  world_->cut(first, backup(), false);
  EXPECT_TRUE(run_until([&] { return increment_or_nothing().has_value(); }, seconds(4))) << "it stays silent";
  EXPECT_EQ(*leader(), first);
  EXPECT_EQ(last_, 1U);  // carried out once
}

TEST_F(GroupScene, AMemberWhoseDiskHasFailedDoesNotStandBy) {
  make(2);
  Member& member = world_->process(backup())->member();
  ASSERT_TRUE(run_until([&] { return member.stands_by(); }, seconds(5))) << "it serves, but does not stand by";
  member.failed(Error(Errc::kIoError, "store of the group"));
  EXPECT_FALSE(member.stands_by());
}

TEST_F(GroupScene, ABackupWithoutRoomMakesThePrimaryShortOfSpace) {
  make(2);
  GroupProcess& primary = *world_->process(*leader());
  faults(backup()).short_of_space = true;
  EXPECT_TRUE(run_until([&] { return primary.short_of_space(); }, seconds(1)));
  faults(backup()).short_of_space = false;
  EXPECT_TRUE(run_until([&] { return !primary.short_of_space(); }, seconds(1)));
}

TEST_F(GroupScene, APrimaryIsNotShortOfSpaceWhenABackupWithoutRoomHasGone) {
  make(2);
  GroupProcess& primary = *world_->process(*leader());
  const std::uint32_t other = backup();
  faults(other).short_of_space = true;
  ASSERT_TRUE(run_until([&] { return primary.short_of_space(); }, seconds(1)));
  world_->kill(other);
  EXPECT_TRUE(run_until([&] { return !primary.short_of_space(); }, seconds(4)));
}

TEST_F(GroupScene, AMemberWithoutRoomJoinsWhenItHasRoom) {
  make(2);
  const std::uint32_t other = backup();
  world_->kill(other);
  ASSERT_TRUE(run_until([&] { return !serves(other); }, seconds(4)));
  faults(other).short_of_space = true;
  world_->start(other);
  EXPECT_FALSE(run_until([&] { return serves(other); }, seconds(10)));
  EXPECT_FALSE(world_->process(*leader())->short_of_space());
  faults(other).short_of_space = false;
  EXPECT_TRUE(run_until([&] { return serves(other); }, seconds(10)));
}

TEST_F(GroupScene, AMemberWhoseDiskHangsDelaysNobodyAfterItsRemoval) {
  make(3);
  const std::uint32_t other = backup();
  faults(other).hangs = true;
  std::ignore = increment();
  ASSERT_TRUE(run_until([&] { return !serves(other); }, seconds(20)));
  Duration longest{0};
  for (int i = 0; i < 40; ++i) {
    const auto took = increment();
    ASSERT_NE(took, std::nullopt) << "increment " << i;
    longest = std::max(longest, *took);
    run_for(milliseconds(500));
  }
  EXPECT_LT(longest, milliseconds(100));
  faults(other).hangs = false;
  EXPECT_TRUE(run_until([&] { return serves(other); }, seconds(20)));
}

TEST_F(GroupScene, AMemberWhoseDiskHangsKeepsFewMessages) {
  make(3);
  const std::uint32_t other = backup();
  faults(other).hangs = true;
  for (int i = 0; i < 40; ++i) {
    world_->process(*leader())->count({1, ++number_, 0, true, false}, [](auto) {});
    run_for(milliseconds(500));
  }
  EXPECT_LE(world_->process(other)->under_way(), 8U);
}

/// While a member was away, others answered changes as durable. It must have synced them when it serves again.
TEST_F(GroupScene, AMemberThatServesAgainHasSyncedWhatTheOthersHad) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    make(2, seed);
    const std::uint32_t first = *leader();
    const std::uint32_t other = backup();
    number_ = 0;
    world_->kill(other);
    ASSERT_TRUE(run_until([&] { return !serves(other); }, seconds(4)));
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(increment(true).has_value());
    const std::uint64_t durable = last_;
    world_->start(other);
    ASSERT_TRUE(run_until([&] { return serves(other); }, seconds(10)));
    world_->kill(first);
    world_->crash(other);
    world_->start(other);
    ASSERT_TRUE(run_until([&] { return leader() == other; }, seconds(60)));
    ASSERT_NE(increment(), std::nullopt) << "seed " << seed;
    ASSERT_GT(last_, durable) << "seed " << seed;
  }
}

/// The coordinator is restored from an old copy. There, a member leads and serves that was removed since; it returns.
/// The test finds out whether another member still takes the lead afterwards, with all increments.
class RestoredCoordinator : public GroupScene {
 protected:
  bool ends_well(std::uint64_t seed) {
    make(3, seed);
    const std::uint32_t removed = *leader();
    const coord::Snapshot old = world_->service().read("");
    world_->kill(removed);
    run_until([&] { return leader() && *leader() != removed && !serves(removed); }, seconds(20));
    std::ignore = increment();
    const std::uint64_t counted = last_;
    world_->service().restore(old);
    world_->start(removed);
    bool led = false;
    run_until([&] { return led = led || world_->process(removed)->member().leads(); }, seconds(8));
    if (!led) std::ignore = increment();
    return !led && last_ == counted + 1;
  }
};

TEST_F(RestoredCoordinator, AMemberThatWasRemovedDoesNotLead) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) EXPECT_TRUE(ends_well(seed)) << "seed " << seed;
}

TEST_F(RestoredCoordinator, WithoutItsRecordThePrimaryContinuesAndNobodyTakesItsPlace) {
  make(3);
  const std::uint32_t first = *leader();
  world_->service().restore({});
  run_for(seconds(10));
  ASSERT_EQ(leader(), first);
  EXPECT_NE(increment(), std::nullopt);
  world_->kill(first);
  run_for(seconds(20));
  EXPECT_EQ(leader(), std::nullopt);
}

TEST_F(RestoredCoordinator, ARecordThatAnOperatorHasRecreatedIsUsed) {
  make(3);
  std::ignore = increment();
  const std::uint32_t best = *leader();
  GroupRecord record = *world_->record();
  world_->service().restore({});
  run_for(seconds(3));
  ++record.epoch;
  for (MemberEntry& member : record.members) member.serving = member.server == ServerId(best + 1);
  record.primary = ServerId(best + 1);
  coord::Change change;
  const std::string key = record_key(1);  // the world's group
  change.compare(key, 0).put(key, encode(record));
  ASSERT_OK(world_->service().make(change));
  EXPECT_TRUE(
      run_until([&] { return leader() && world_->record()->epoch > record.epoch && all_serve(); }, seconds(30)));
  EXPECT_NE(increment(), std::nullopt);
  EXPECT_EQ(last_, 2U);
}

}  // namespace
}  // namespace spate::group
