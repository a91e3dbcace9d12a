// SPDX-License-Identifier: Apache-2.0
// The requests of a meta server to the primaries of groups.
#include <gmock/gmock.h>

#include <optional>
#include <set>

#include "base/expect.h"
#include "server/meta/testing/io_servers_test.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

using MetaIoGroups = MetaIoServers;

DataGroup group_of(std::uint64_t epoch, TargetId primary, TargetId other) {
  DataGroup group;
  group.id = kFirstGroup;
  group.epoch = epoch;
  group.primary = primary;
  group.members = {{primary, MemberState::kServing}, {other, MemberState::kServing}};
  return group;
}

TEST_F(MetaIoGroups, ThePrimaryOfAGroupIsAsked) {
  EXPECT_ERRC(run(io->stat(Handle(5), layout({kFirstGroup}), {})), Errc::kStaleMap);
  io->group_changed(group_of(1, target(2), target(3)));
  server(2).states[{5, kFirstGroup}] = {50, 4096, 10, WallTime{30}};
  const auto sum = run(io->stat(Handle(5), layout({kFirstGroup}), {}));
  ASSERT_OK(sum);
  EXPECT_EQ(sum->size, 50U);
  EXPECT_OK(run(io->remove({{Handle(5), layout({kFirstGroup})}}, WallTime{1}, {})).failure);
  EXPECT_EQ(server(2).removed, std::set<Handle>{Handle(5)});
  EXPECT_THAT(server(3).stats, testing::IsEmpty());
  EXPECT_THAT(server(3).removes, testing::IsEmpty());
}

TEST_F(MetaIoGroups, ARequestFollowsTheGroupToItsNewPrimary) {
  io->group_changed(group_of(1, target(2), target(3)));
  take_down(2);
  std::optional<Result<wire::DataSummary>> cut;
  job::Gate gate(executor);
  job::spawn(gate, keep(io->truncate(Handle(5), intent(230, layout({kFirstGroup})), {}), cut));
  run(rest(seconds(2)));
  EXPECT_EQ(cut, std::nullopt);
  io->group_changed(group_of(2, target(3), target(2)));
  run(rest(seconds(1)));
  ASSERT_NE(cut, std::nullopt) << "the truncation still waits for the old primary";
  EXPECT_OK(*cut);
  EXPECT_EQ(server(3).truncates.size(), 1U);
}

TEST_F(MetaIoGroups, AMemberThatDoesNotLeadYetIsAskedAgain) {
  io->group_changed(group_of(1, target(2), target(3)));
  server(2).failure = Errc::kNotPrimary;
  server(2).failures = 3;
  EXPECT_OK(run(io->stat(Handle(5), layout({kFirstGroup}), {})));
  EXPECT_EQ(server(2).stats.size(), 4U);
  server(2).failure = Errc::kNotPrimary;
  server(2).failures = 0;
  EXPECT_ERRC(run(io->stat(Handle(5), layout({kFirstGroup}), {})), Errc::kNotPrimary);
}

TEST_F(MetaIoGroups, AGroupWithoutPrimaryDelaysOnlyItsOwnFiles) {
  io->group_changed(group_of(1, target(2), target(3)));
  take_down(2);
  const auto outcome =
      run(io->remove({{Handle(5), layout({kFirstGroup})}, {Handle(6), layout({target(3)})}}, WallTime{1}, {}));
  EXPECT_EQ(outcome.removed, std::vector<bool>({false, true}));
  EXPECT_EQ(outcome.out_of_reach, std::vector<TargetId>({kFirstGroup}));
}

}  // namespace
}  // namespace spate::meta
