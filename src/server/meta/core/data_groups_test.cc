// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/data_groups.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/expect.h"
#include "server/meta/names/mirror_choice.h"
#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr TargetId target(std::uint32_t server) { return target_id(ServerId(server), 0); }

TestFsOptions mirrored(std::uint32_t replicas = 2) {
  TestFsOptions options;
  options.meta.replicas = replicas;
  return options;
}

struct Member : TestFs {
  using TestFs::TestFs;
  Result<wire::ChangeGroupReply> change(std::uint64_t from_epoch, DataGroup next, TargetId by) {
    wire::ChangeGroupRequest request;
    request.from_epoch = from_epoch;
    request.by = by;
    request.next = std::move(next);
    auto reply = as(server_of(by), request);
    return reply;
  }
  Result<wire::ChangeGroupReply> as(ServerId server, const wire::ChangeGroupRequest& request) {
    asking = server;
    auto reply = asked<wire::ChangeGroupReply>(root_user(), request);
    asking = {};
    return reply;
  }
  /// The servers of all members of all groups.
  std::set<ServerId> members() {
    std::set<ServerId> servers;
    for (const DataGroup& group : groups()) {
      for (const GroupMember& member : group.members) servers.insert(server_of(member.target));
    }
    return servers;
  }
  std::vector<DataGroup> groups(wire::DataGroupsRequest request = {}) {
    auto reply = asked<wire::DataGroupsReply>(root_user(), request);
    EXPECT_OK(reply);
    return reply ? reply->groups : std::vector<DataGroup>();
  }
  Result<wire::CreateReply> create(const std::string& path) {
    wire::CreateRequest request;
    request.where = at(path);
    return asked<wire::CreateReply>(root_user(), request);
  }
  /// A group whose primary is on server 1, as after the first create.
  DataGroup any_group() {
    EXPECT_OK(create("any"));
    for (const DataGroup& group : groups()) {
      if (group.primary == target(1)) return group;
    }
    ADD_FAILURE() << "no group begins on server 1";
    return {};
  }
};

/// The next record, in which `by` leads alone.
DataGroup alone(DataGroup group, TargetId by) {
  ++group.epoch;
  group.primary = by;
  for (GroupMember& member : group.members) member.state = MemberState::kAbsent;
  group.find(by)->state = MemberState::kServing;
  return group;
}

TEST(MetaDataGroups, AFileWithCopiesNamesGroupsOfDifferentServers) {
  Member fs(mirrored(3));
  const auto made = fs.create("f");
  ASSERT_OK(made);
  const Layout& layout = *made->object.layout;
  EXPECT_EQ(layout.redundancy, Redundancy::kMirror);
  ASSERT_THAT(layout.slots, SizeIs(4));
  for (const Slot& slot : layout.slots) {
    const DataGroup* const group = fs.core->data_groups().find(slot.targets.front());
    ASSERT_NE(group, nullptr);
    EXPECT_THAT(group->members, SizeIs(3));
    EXPECT_TRUE(group->is_whole()) << "a member does not serve";
    EXPECT_OK(check_group(*group));
  }
}

TEST(MetaDataGroups, FilesShareGroups) {
  Member fs(mirrored());
  ASSERT_OK(fs.create("f"));
  const std::size_t count = fs.groups().size();
  EXPECT_GE(count, 4U);
  for (int i = 0; i < 40; ++i) ASSERT_OK(fs.create("f" + std::to_string(i)));
  EXPECT_EQ(fs.groups().size(), count);
}

TEST(MetaDataGroups, WithTooFewServersCreationFailsWithASentence) {
  TestFsOptions options = mirrored(3);
  options.meta.map.servers.resize(2);
  Member fs(options);
  const auto made = fs.create("f");
  ASSERT_ERRC(made, Errc::kNoSpace);
  EXPECT_EQ(made.error().context(),
            "new files here have 3 copies on different io servers, and the file system has 2 io servers");
  EXPECT_EQ(fs.groups().size(), 0U);
}

/// A group of which only the primary is left, and the record in which `other` takes the place of the absent member.
struct Replaced {
  explicit Replaced(Member& fs) : whole(fs.any_group()), degraded(alone(whole, whole.primary)), next(degraded) {
    EXPECT_OK(fs.change(whole.epoch, degraded, whole.primary));
    ++next.epoch;
    for (const ServerEntry& server : fs.core->membership().map().servers) {
      const auto is_here = [&server](const GroupMember& m) { return server_of(m.target) == server.id; };
      if (std::ranges::none_of(whole.members, is_here)) next.members[1].target = server.targets.front();
    }
  }
  DataGroup whole;
  DataGroup degraded;
  DataGroup next;
};

/// All servers but `silent` ask for their groups.
void all_ask(Member& fs, std::set<ServerId> silent = {}) {
  for (const ServerEntry& server : fs.core->membership().map().servers) {
    fs.asking = server.id;
    if (!silent.contains(server.id)) fs.groups({.groups = {}, .after = {}, .server = server.id});
  }
  fs.asking = {};
}

TEST(MetaDataGroups, NobodyIsReplacedWhileManyServersAreSilent) {
  Member fs(mirrored());
  const Replaced group(fs);
  EXPECT_ERRC(fs.change(group.degraded.epoch, group.next, group.whole.primary), Errc::kTryAgain);
  all_ask(fs);
  fs.clock.advance(std::chrono::seconds(11));
  all_ask(fs, {server_of(group.whole.members[1].target), server_of(group.next.members[1].target)});
  EXPECT_ERRC(fs.change(group.degraded.epoch, group.next, group.whole.primary), Errc::kTryAgain);
  all_ask(fs, {server_of(group.whole.members[1].target)});
  const auto made = fs.change(group.degraded.epoch, group.next, group.whole.primary);
  ASSERT_OK(made);
  EXPECT_TRUE(made->made) << "one server is silent, and its place cannot be taken";
}

/// A member that has not heard of a replacement needs the record to take over.
TEST(MetaDataGroups, AMemberThatMissedAReplacementGetsTheRecordAlthoughManyServersAreSilent) {
  Member fs(mirrored());
  const Replaced group(fs);
  all_ask(fs);
  ASSERT_OK(fs.change(group.degraded.epoch, group.next, group.whole.primary));
  fs.clock.advance(std::chrono::seconds(60));
  const auto late = fs.change(group.whole.epoch, alone(group.whole, group.whole.primary), group.whole.primary);
  ASSERT_OK(late);
  EXPECT_FALSE(late->made);
  EXPECT_EQ(late->now, group.next);
}

TEST(MetaDataGroups, NewFilesAvoidASilentServerIfTheOthersSuffice) {
  Member fs(mirrored());
  const DataGroup group = fs.any_group();
  const ServerId silent = server_of(group.members[1].target);
  all_ask(fs);
  fs.clock.advance(std::chrono::seconds(11));
  all_ask(fs, {silent});
  for (int i = 0; i < 20; ++i) {
    const auto made = fs.create("f" + std::to_string(i));
    ASSERT_OK(made);
    for (const Slot& slot : made->object.layout->slots) {
      const DataGroup* const of_slot = fs.core->data_groups().find(slot.targets.front());
      ASSERT_NE(of_slot, nullptr);
      for (const GroupMember& member : of_slot->members) EXPECT_NE(server_of(member.target), silent);
    }
  }
}

TEST(MetaDataGroups, ASilentServerIsUsedIfTheOthersDoNotSuffice) {
  TestFsOptions options = mirrored();
  options.meta.map.servers.resize(2);
  Member fs(options);
  ASSERT_OK(fs.create("f"));
  all_ask(fs);
  fs.clock.advance(std::chrono::seconds(11));
  EXPECT_OK(fs.create("g"));
}

TEST(MetaDataGroups, AMemberChangesTheRecordOnce) {
  Member fs(mirrored());
  const DataGroup group = fs.any_group();
  const TargetId second = group.members[1].target;
  const DataGroup next = alone(group, second);
  auto made = fs.change(group.epoch, next, second);
  ASSERT_OK(made);
  EXPECT_TRUE(made->made) << "the change of the epoch that is current was refused";
  EXPECT_EQ(made->now, next);
  made = fs.change(group.epoch, next, second);
  ASSERT_OK(made);
  EXPECT_TRUE(made->made) << "the same request again";
  const auto late = fs.change(group.epoch, alone(group, group.primary), group.primary);
  ASSERT_OK(late);
  EXPECT_FALSE(late->made);
  EXPECT_EQ(late->now, next);
}

TEST(MetaDataGroups, IllegalChangesAreRefused) {
  Member fs(mirrored());
  const DataGroup group = fs.any_group();
  DataGroup next = alone(group, group.primary);
  EXPECT_ERRC(fs.change(group.epoch, next, target(77)), Errc::kInvalidArgument);
  ++next.epoch;
  EXPECT_ERRC(fs.change(group.epoch, next, group.primary), Errc::kInvalidArgument);
  next = alone(group, group.primary);
  next.id = TargetId(kFirstGroup.value + 9999);
  EXPECT_ERRC(fs.change(group.epoch, next, group.primary), Errc::kNotFound);
  EXPECT_EQ(*fs.core->data_groups().find(group.id), group);
}

TEST(MetaDataGroups, OnlyTheServerOfTheMemberAsksForItsChange) {
  Member fs(mirrored());
  const DataGroup group = fs.any_group();
  const TargetId second = group.members[1].target;
  const wire::ChangeGroupRequest request{group.epoch, second, alone(group, second)};
  EXPECT_ERRC(fs.as(server_of(group.primary), request), Errc::kNotPermitted);
  EXPECT_ERRC(fs.as(ServerId(), request), Errc::kNotPermitted) << "one that does not say which it is";
  EXPECT_EQ(*fs.core->data_groups().find(group.id), group);
  EXPECT_OK(fs.as(server_of(second), request));
}

TEST(MetaDataGroups, AServerOfAnEarlierVersionIsNoMember) {
  TestFsOptions options = mirrored();
  options.silent = {ServerId(3)};
  Member fs(options);
  const MonoTime begin = fs.executor.now();
  for (int i = 0; i < 8; ++i) ASSERT_OK(fs.create("f" + std::to_string(i)));
  EXPECT_LT(fs.executor.now() - begin, std::chrono::seconds(10)) << "it is waited for once";
  EXPECT_THAT(fs.members(), ElementsAre(ServerId(1), ServerId(2), ServerId(4)));
  fs.asking = ServerId(3);
  fs.asking_features = wire::kFeatureNone;
  wire::DataGroupsRequest own;
  own.server = ServerId(3);
  EXPECT_THAT(fs.groups(own), IsEmpty());
  fs.asking = {};
  ASSERT_OK(fs.create("unknown still"));
  EXPECT_FALSE(fs.members().contains(ServerId(3)));
  fs.asking = ServerId(3);
  fs.asking_features = wire::kFeatureMirrors;
  EXPECT_THAT(fs.groups(own), IsEmpty());
  fs.asking = {};
  for (int i = 0; i < 4; ++i) ASSERT_OK(fs.create("g" + std::to_string(i)));
  EXPECT_TRUE(fs.members().contains(ServerId(3))) << "upgraded";
}

TEST(MetaDataGroups, WithTooFewServersThatSupportCopiesCreationFails) {
  TestFsOptions options = mirrored();
  options.silent = {ServerId(1), ServerId(3), ServerId(4)};
  Member fs(options);
  const auto made = fs.create("f");
  ASSERT_ERRC(made, Errc::kNoSpace);
  EXPECT_EQ(made.error().context(),
            "new files here have 2 copies on different io servers, and the file system has 1 io server that can keep "
            "them: the others are away, or of an earlier version");
}

TEST(MetaDataGroups, AServerJoinsAsItself) {
  Member fs(mirrored());
  wire::JoinServerRequest request;
  request.server = ServerId(9);
  request.urls = {"sim://9"};
  request.targets = {target(9)};
  fs.asking = ServerId(8);
  EXPECT_ERRC(fs.asked<wire::JoinServerReply>(root_user(), request), Errc::kNotPermitted);
  fs.asking = ServerId(9);
  EXPECT_OK(fs.asked<wire::JoinServerReply>(root_user(), request));
}

TEST(MetaDataGroups, ARestartKeepsTheRecords) {
  Member fs(mirrored());
  const DataGroup group = fs.any_group();
  ASSERT_OK(fs.change(group.epoch, alone(group, group.primary), group.primary));
  const std::vector<DataGroup> before = fs.groups();
  fs.crash();
  fs.store.crash_machine();
  fs.open(mirrored().meta);
  ASSERT_OK(fs.started);
  EXPECT_EQ(fs.groups(), before);
}

job::Task<void> change_into(TestFs& fs, wire::ChangeGroupRequest request,
                            std::optional<Result<wire::ChangeGroupReply>>& out) {
  fs.asking = server_of(request.by);
  auto task = fs.ask<wire::ChangeGroupReply>(root_user(), std::move(request));
  out.emplace(co_await std::move(task));
}

TEST(MetaDataGroups, OfTwoChangesAtOnceOneIsMade) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TestFsOptions options = mirrored();
    options.seed = seed;
    options.overlap = true;
    Member fs(options);
    const DataGroup group = fs.any_group();
    const TargetId second = group.members[1].target;
    wire::ChangeGroupRequest evict{group.epoch, group.primary, alone(group, group.primary)};
    wire::ChangeGroupRequest accuse{group.epoch, second, alone(group, second)};
    std::optional<Result<wire::ChangeGroupReply>> evicted;
    std::optional<Result<wire::ChangeGroupReply>> accused;
    job::Gate gate(fs.executor);
    job::spawn(gate, change_into(fs, evict, evicted));
    job::spawn(gate, change_into(fs, accuse, accused));
    fs.drive(gate);
    ASSERT_OK(*evicted);
    ASSERT_OK(*accused);
    EXPECT_NE((*evicted)->made, (*accused)->made) << "seed " << seed;
    EXPECT_EQ((*evicted)->now, (*accused)->now) << "seed " << seed;
  }
}

TEST(MetaDataGroups, ListsByNumberServerAndPage) {
  Member fs(mirrored());
  const DataGroup group = fs.any_group();
  wire::DataGroupsRequest request;
  request.groups = {group.id, TargetId(kFirstGroup.value + 5000)};
  EXPECT_THAT(fs.groups(request), ElementsAre(group));
  request = {};
  request.server = ServerId(2);
  const auto on_two = fs.groups(request);
  EXPECT_NE(on_two.size(), 0U);
  EXPECT_LT(on_two.size(), fs.groups().size());
  for (const DataGroup& g : on_two) EXPECT_NE(g.find(target(2)), nullptr);
  request = {};
  request.after = group.id;
  for (const DataGroup& g : fs.groups(request)) EXPECT_GT(g.id, group.id);
  request = {};
  request.groups.resize(wire::kMaxGroupsAsked + 1, group.id);
  EXPECT_ERRC(fs.asked<wire::DataGroupsReply>(root_user(), request), Errc::kInvalidArgument);
}

/// Six servers on three hosts.
ClusterMap on_hosts() {
  ClusterMap map;
  for (std::uint32_t id = 1; id <= 6; ++id) {
    ServerEntry server;
    server.id = ServerId(id);
    server.urls = {"shm:///run/" + std::to_string(id), "tcp://10.0.0." + std::to_string((id - 1) / 2) + ":7400"};
    server.roles = {false, true};
    server.targets = {target_id(server.id, 0), target_id(server.id, 1)};
    map.servers.push_back(server);
  }
  return map;
}

std::string host(const ClusterMap& map, TargetId target) { return map.server_of_target(target)->urls.back(); }

TEST(MetaGroupMembers, HostsAreKeptApartIfThereAreEnough) {
  const ClusterMap map = on_hosts();
  for (std::uint32_t replicas = 2; replicas <= 3; ++replicas) {
    for (std::uint64_t turn = 0; turn < 2 * kMostPartners; ++turn) {
      const auto members = group_members(map, target(3), replicas, turn);
      ASSERT_OK(members);
      ASSERT_THAT(*members, SizeIs(replicas));
      std::set<std::string> hosts;
      for (const TargetId member : *members) hosts.insert(host(map, member).substr(0, 15));
      EXPECT_THAT(hosts, SizeIs(replicas)) << "turn " << turn;
    }
  }
}

TEST(MetaGroupMembers, WithTooFewHostsServersAreKeptApart) {
  const ClusterMap map = on_hosts();
  const auto members = group_members(map, target(1), 5, 3);
  ASSERT_OK(members);
  std::set<ServerId> servers;
  for (const TargetId member : *members) servers.insert(server_of(member));
  EXPECT_THAT(servers, SizeIs(5));
  EXPECT_ERRC(group_members(map, target(1), 7, 0), Errc::kNoSpace);
}

TEST(MetaGroupMembers, SuccessiveFilesSpreadATargetsGroups) {
  const ClusterMap map = on_hosts();
  std::set<ServerId> partners;
  for (std::uint64_t turn = 0; turn < kMostPartners; ++turn)
    partners.insert(server_of(group_members(map, target(1), 2, turn).value()[1]));
  EXPECT_THAT(partners, SizeIs(4)) << "all servers of other hosts";
}

}  // namespace
}  // namespace spate::meta
