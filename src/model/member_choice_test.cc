// SPDX-License-Identifier: Apache-2.0
#include "model/member_choice.h"

#include <gmock/gmock.h>

#include <map>

#include "base/expect.h"

namespace spate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ServerEntry io_server(std::uint32_t id, const std::string& host, std::size_t targets = 1) {
  ServerEntry server;
  server.id = ServerId(id);
  server.urls = {"shm://of-" + std::to_string(id), "tcp://" + host + ":70"};
  server.roles.io = true;
  for (std::size_t i = 0; i < targets; ++i) server.targets.push_back(target_id(server.id, i));
  return server;
}

ClusterMap map_of(std::vector<ServerEntry> servers) {
  ClusterMap map;
  map.servers = std::move(servers);
  return map;
}

/// A group of servers 1 and 2, whose second member is absent.
DataGroup group_of(std::uint32_t number = 0) {
  DataGroup group;
  group.id = TargetId(kFirstGroup.value + number);
  group.primary = target_id(ServerId(1), 0);
  group.members = {{group.primary, MemberState::kServing}, {target_id(ServerId(2), 0), MemberState::kAbsent}};
  return group;
}

std::vector<TargetId> found_in(const ClusterMap& map, const DataGroup& group) {
  return replacements(map, group, group.members[1].target);
}

TEST(MemberChoice, AHostIsReadFromTheFirstUrlThatHasOne) {
  EXPECT_EQ(host_of(io_server(1, "node7")), "node7");
  EXPECT_EQ(host_of(io_server(1, "[fe80::1]")), "[fe80::1");
  ServerEntry local = io_server(1, "a");
  local.urls = {"shm://name", "nonsense"};
  EXPECT_EQ(host_of(local), "");
}

TEST(MemberChoice, NoServerHasTwoMembers) {
  const ClusterMap map = map_of({io_server(1, "a"), io_server(2, "a"), io_server(3, "a")});
  EXPECT_THAT(found_in(map, group_of()), ElementsAre(target_id(ServerId(3), 0)));
  EXPECT_THAT(found_in(map_of({io_server(1, "a"), io_server(2, "a")}), group_of()), IsEmpty());
}

TEST(MemberChoice, CopiesAreNeverOnOneHostIfTheyCanBeApart) {
  const ClusterMap map = map_of({io_server(1, "a"), io_server(2, "b"), io_server(3, "a")});
  EXPECT_THAT(found_in(map, group_of()), IsEmpty()) << "server 3 is on the host of server 1";
  const ClusterMap more = map_of({io_server(1, "a"), io_server(2, "b"), io_server(3, "a"), io_server(4, "b")});
  EXPECT_THAT(found_in(more, group_of()), ElementsAre(target_id(ServerId(4), 0)));
}

ServerEntry in_rack(const std::string& rack, ServerEntry server) {
  server.rack = rack;
  return server;
}

TEST(MemberChoice, CopiesAreNeverInOneRackIfTheyCanBeApart) {
  std::vector<ServerEntry> servers{in_rack("r1", io_server(1, "a")), in_rack("r2", io_server(2, "b")),
                                   in_rack("r1", io_server(3, "c"))};
  EXPECT_THAT(found_in(map_of(servers), group_of()), IsEmpty()) << "server 3 is in the rack of server 1";
  servers.push_back(in_rack("r2", io_server(4, "d")));
  EXPECT_THAT(found_in(map_of(servers), group_of()), ElementsAre(target_id(ServerId(4), 0)));
}

TEST(MemberChoice, WithTooFewRacksHostsAreKeptApart) {
  const ClusterMap map = map_of({in_rack("r1", io_server(1, "a")), in_rack("r1", io_server(2, "b")),
                                 in_rack("r1", io_server(3, "a")), in_rack("r1", io_server(4, "c"))});
  EXPECT_THAT(found_in(map, group_of()), ElementsAre(target_id(ServerId(4), 0)));
}

TEST(MemberChoice, AServerWithoutARackIsInARackOfItsHost) {
  const ClusterMap map = map_of(
      {in_rack("r1", io_server(1, "a")), io_server(2, "b"), io_server(3, "b"), in_rack("r1", io_server(4, "c"))});
  EXPECT_THAT(found_in(map, group_of()), ElementsAre(target_id(ServerId(3), 0)));
}

TEST(MemberChoice, ServersWithoutTargetsKeepNothing) {
  ServerEntry meta = io_server(3, "c");
  meta.roles = {.meta = true, .io = false};
  const ClusterMap map = map_of({io_server(1, "a"), io_server(2, "b"), meta, io_server(4, "d", 0)});
  EXPECT_THAT(found_in(map, group_of()), IsEmpty());
}

TEST(MemberChoice, ManyServersAndTargetsShareTheWork) {
  std::vector<ServerEntry> servers;
  for (std::uint32_t id = 1; id <= 10; ++id) servers.push_back(io_server(id, "h" + std::to_string(id), 2));
  const ClusterMap map = map_of(std::move(servers));
  std::map<TargetId, int> first;
  for (std::uint32_t number = 0; number < 1600; ++number) {
    const std::vector<TargetId> found = found_in(map, group_of(number));
    ASSERT_THAT(found, SizeIs(8));
    ++first[found.front()];
  }
  EXPECT_THAT(first, SizeIs(16)) << "each target of the eight other servers is the first choice of some group";
  for (const auto& [target, count] : first) {
    EXPECT_GT(count, 50) << target.value;
    EXPECT_LT(count, 150) << target.value;
  }
}

}  // namespace
}  // namespace spate
