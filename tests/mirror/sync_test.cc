// SPDX-License-Identifier: Apache-2.0
// fsync of mirrored files while a member does not answer: it takes no longer than a write does. And after all members
// have lost power: it reports that unsynced writes may be lost.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using namespace std::chrono_literals;

constexpr Duration kLongestSync = 4s;

enum class Silence : std::uint8_t { kKilled, kPaused, kCutOff, kHearsNobody, kIsNotHeard };

struct SilentMember {
  const char* name;
  bool is_primary;
  Silence silence;
  Duration into_the_sync;  // how long the sync runs before the member falls silent
};

class SilentMemberTest : public ::testing::TestWithParam<SilentMember> {
 protected:
  /// Between the two members of the group alone; clients and the meta server reach both.
  void strike(MirrorWorld& mirrors, ServerId silent, ServerId other) {
    bmi::sim::Links& links = mirrors.world.fabric().links();
    switch (GetParam().silence) {
      case Silence::kKilled: mirrors.kill(silent); break;
      case Silence::kPaused: mirrors.world.pause(silent, true); break;
      case Silence::kCutOff: mirrors.cut(silent, other, true); break;
      case Silence::kHearsNobody: links.partition_one_way(other.value, silent.value, true); break;
      case Silence::kIsNotHeard: links.partition_one_way(silent.value, other.value, true); break;
    }
  }
  void mend(MirrorWorld& mirrors, ServerId silent, ServerId other) {
    bmi::sim::Links& links = mirrors.world.fabric().links();
    mirrors.cut(silent, other, false);
    links.partition_one_way(other.value, silent.value, false);
    links.partition_one_way(silent.value, other.value, false);
    if (GetParam().silence == Silence::kPaused) mirrors.world.pause(silent, false);
    if (GetParam().silence == Silence::kKilled) mirrors.restart(silent);
  }
};

TEST_P(SilentMemberTest, HoldsASyncUpForFourSecondsAtMost) {
  MirrorWorld mirrors;
  World& world = mirrors.world;
  ClientProcess& client = world.start_client();
  client::NewObject object;
  object.layout.slot_count = 1;
  auto made = call(world, client, client.client().create(client::path_from_root("f"), kMirrorOpen, object));
  ASSERT_OK(made);
  const std::unique_ptr<client::File> file = *std::move(made);
  const Bytes data(20'000, std::byte{5});
  ASSERT_OK(call(world, client, file->write(0, data)));
  ASSERT_TRUE(mirrors.become_whole()) << "a group lacks a copy";
  const ServerId primary = mirrors.primary_of(*file);
  const ServerId backup = mirrors.backup_of(*file);
  const ServerId silent = GetParam().is_primary ? primary : backup;
  const ServerId other = GetParam().is_primary ? backup : primary;
  const MonoTime begun = world.now();
  if (GetParam().into_the_sync == Duration(0)) strike(mirrors, silent, other);
  const auto synced = begin_call(client, file->sync());
  if (GetParam().into_the_sync > Duration(0)) {
    world.run_for(GetParam().into_the_sync);
    ASSERT_FALSE(synced->has_value()) << "not as the scene wants it";
    strike(mirrors, silent, other);
  }
  EXPECT_OK(end_call(world, synced));
  EXPECT_LE(world.now() - begun, kLongestSync);
  mend(mirrors, silent, other);
  ASSERT_TRUE(mirrors.become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors.differences(), "");
}

/// A member that is being brought up to date receives all changes, but nothing depends on it.
TEST(SilentJoiningMember, HoldsWritesAndSyncsUpForFourSecondsAtMost) {
  WorldOptions options = mirror_options();
  options.rebuild_rate = 128 * 1024;
  MirrorWorld mirrors(options);
  World& world = mirrors.world;
  ClientProcess& client = world.start_client();
  client::NewObject object;
  object.layout.slot_count = 1;
  auto made = call(world, client, client.client().create(client::path_from_root("f"), kMirrorOpen, object));
  ASSERT_OK(made);
  const std::unique_ptr<client::File> file = *std::move(made);
  const Bytes content(12'000'000, std::byte{5});
  ASSERT_OK(call(world, client, file->write(0, content)));
  ASSERT_OK(call(world, client, file->sync()));
  ASSERT_TRUE(mirrors.become_whole()) << "a group lacks a copy";
  const ServerId joining = mirrors.backup_of(*file);
  mirrors.kill(joining, Death::kMachine);
  world.run_for(5s);
  mirrors.restart_empty(joining);
  const auto joins = [&] {
    const DataGroup group = mirrors.group_of(*file);
    return std::ranges::any_of(group.members, [](const auto& m) { return m.state == MemberState::kJoining; });
  };
  world.run_for(10s);
  ASSERT_TRUE(joins()) << "not as the scene wants it";
  world.pause(joining, true);
  const MonoTime begun = world.now();
  const Bytes data(20'000, std::byte{6});
  const auto written = begin_call(client, file->write(0, data));
  const auto synced = begin_call(client, file->sync());
  EXPECT_OK(end_call(world, written));
  EXPECT_LE(world.now() - begun, kLongestSync);
  EXPECT_OK(end_call(world, synced));
  EXPECT_LE(world.now() - begun, kLongestSync);
  world.pause(joining, false);
  ASSERT_TRUE(mirrors.become_whole(300s)) << "a group lacks a copy";
  EXPECT_EQ(mirrors.differences(), "");
}

/// Both machines have lost what was not synced. The one that leads the group then is the former primary, or the backup.
TEST(SyncAfterAPowerFailure, ReportsThatWritesMayBeLostWhicheverMemberLeads) {
  for (const bool former_primary : {true, false}) {
    SCOPED_TRACE(former_primary ? "the former primary leads" : "the backup leads");
    MirrorWorld mirrors;
    World& world = mirrors.world;
    ClientProcess& client = world.start_client();
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = call(world, client, client.client().create(client::path_from_root("f"), kMirrorOpen, object));
    ASSERT_OK(made);
    const std::unique_ptr<client::File> file = *std::move(made);
    const Bytes data(20'000, std::byte{5});
    ASSERT_OK(call(world, client, file->write(0, data)));
    ASSERT_OK(call(world, client, file->sync()));
    ASSERT_TRUE(mirrors.become_whole()) << "a group lacks a copy";
    ASSERT_OK(call(world, client, file->write(10'000, data)));
    const ServerId leads = former_primary ? mirrors.primary_of(*file) : mirrors.backup_of(*file);
    const ServerId late = former_primary ? mirrors.backup_of(*file) : mirrors.primary_of(*file);
    for (const ServerId server : {leads, late}) mirrors.kill(server, Death::kMachine);
    mirrors.restart(leads);
    world.run_for(15s);
    ASSERT_EQ(mirrors.primary_of(*file), leads) << "not as the scene wants it";
    EXPECT_ERRC(call(world, client, file->sync()), Errc::kLostWrite);
    EXPECT_OK(call(world, client, file->sync()));
    mirrors.restart(late);
    ASSERT_TRUE(mirrors.become_whole()) << "a group lacks a copy";
    EXPECT_EQ(mirrors.differences(), "");
    ASSERT_OK(call(world, client, file->write(0, data)));
    mirrors.kill(leads);  // its process alone: the other member, which has lost power before, lacks nothing now
    EXPECT_OK(call(world, client, file->sync()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SilentMemberTest,
                         ::testing::Values(SilentMember{"KilledBackup", false, Silence::kKilled, {}},
                                           SilentMember{"PausedBackup", false, Silence::kPaused, {}},
                                           SilentMember{"BackupThatIsCutOff", false, Silence::kCutOff, {}},
                                           SilentMember{"BackupThatHearsNobody", false, Silence::kHearsNobody, {}},
                                           SilentMember{"BackupThatIsNotHeard", false, Silence::kIsNotHeard, {}},
                                           SilentMember{"BackupThatIsPausedMeanwhile", false, Silence::kPaused, 400us},
                                           SilentMember{"KilledPrimary", true, Silence::kKilled, {}},
                                           SilentMember{"PausedPrimary", true, Silence::kPaused, {}},
                                           SilentMember{"PrimaryThatIsCutOff", true, Silence::kCutOff, {}},
                                           SilentMember{"PrimaryThatHearsNobody", true, Silence::kHearsNobody, {}},
                                           SilentMember{"PrimaryThatIsNotHeard", true, Silence::kIsNotHeard, {}},
                                           SilentMember{"PrimaryThatIsPausedMeanwhile", true, Silence::kPaused, 400us}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spate::cluster
