// SPDX-License-Identifier: Apache-2.0
// The requests of a meta server to io servers, over a network with stand-in servers.
#include "server/meta/background/io_servers.h"

#include <gmock/gmock.h>

#include <optional>
#include <set>

#include "base/expect.h"
#include "job/deadline.h"
#include "server/meta/testing/io_servers_test.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

TEST_F(MetaIoServers, EachServerIsAskedOnceForAllOfItsSlots) {
  // Slot 0 and 2 on server 2, slot 1 on server 3: two strips and 50 bytes.
  server(2).states[{5, target(2)}] = {kStrip, 4096, 10, WallTime{30}};
  server(2).states[{5, target(2, 1)}] = {50, 8192, 11, WallTime{10}};
  server(3).states[{5, target(3)}] = {kStrip, 512, 12, WallTime{50}};
  const auto sum = run(io->stat(Handle(5), layout({target(2), target(3), target(2, 1)}), {}));
  ASSERT_OK(sum);
  EXPECT_EQ(sum->size, 2 * kStrip + 50);
  EXPECT_EQ(sum->allocated_bytes, 4096U + 8192U + 512U);
  EXPECT_EQ(sum->mtime, WallTime{50});
  EXPECT_EQ(sum->change_sum, 33U);
  ASSERT_EQ(server(2).stats.size(), 1U);
  ASSERT_EQ(server(2).stats[0].slots.size(), 2U);
  EXPECT_EQ(server(2).stats[0].slots[0].slot, 0U);
  EXPECT_EQ(server(2).stats[0].slots[1].slot, 2U);
  EXPECT_EQ(server(2).stats[0].slots[1].target, target(2, 1));
  ASSERT_EQ(server(3).stats.size(), 1U);
  EXPECT_THAT(server(1).stats, testing::IsEmpty());
}

TEST_F(MetaIoServers, TheMoreAdvancedOfTwoReplicasCounts) {
  Layout mirrored = layout({target(1)});
  mirrored.slots[0].targets.push_back(target(2));
  server(1).states[{5, target(1)}] = {100, 100, 10, WallTime{1}};
  server(2).states[{5, target(2)}] = {300, 300, 11, WallTime{2}};
  const auto sum = run(io->stat(Handle(5), mirrored, {}));
  ASSERT_OK(sum);
  EXPECT_EQ(sum->size, 300U);
  EXPECT_EQ(sum->change_sum, 11U);
}

TEST_F(MetaIoServers, ATruncationSendsEachSlotItsShare) {
  const auto cut = run(io->truncate(Handle(5), intent(2 * kStrip + 30, layout({target(1), target(2), target(3)})), {}));
  ASSERT_OK(cut);
  std::uint64_t sum = 0;
  for (std::uint32_t id = 1; id <= kServers; ++id) {
    ASSERT_EQ(server(id).truncates.size(), 1U);
    const wire::DatafileTruncateRequest& request = server(id).truncates[0];
    EXPECT_EQ(request.handle, Handle(5));
    EXPECT_EQ(request.truncate_generation, 9U);
    EXPECT_EQ(request.fs_time, WallTime{77});
    ASSERT_EQ(request.slots.size(), 1U);
    ASSERT_EQ(request.sizes.size(), 1U);
    EXPECT_EQ(request.sizes[0], id == 3 ? 30U : kStrip);
    sum += request.sizes[0];
  }
  EXPECT_EQ(sum, 2 * kStrip + 30);
}

TEST_F(MetaIoServers, ATruncationIsDoneWhenAllHaveDoneIt) {
  take_down(3);
  const auto cut = run(io->truncate(Handle(5), intent(230, layout({target(1), target(3)})), {}));
  ASSERT_ERRC(cut, Errc::kUnreachable);
  EXPECT_NE(cut.error().message().find("server 3"), std::string::npos) << cut.error().message();
  EXPECT_EQ(server(1).truncates.size(), 1U);
}

TEST_F(MetaIoServers, AnErrorNamesTheServer) {
  server(2).failure = Errc::kIoError;
  const auto sum = run(io->stat(Handle(5), layout({target(1), target(2)}), {}));
  EXPECT_ERRC(sum, Errc::kIoError);
  EXPECT_NE(sum.error().message().find("server 2 (sim://2)"), std::string::npos) << sum.error().message();
}

/// If one server refuses a truncation while another may still carry it out, the truncation goes on.
TEST_F(MetaIoServers, AServerWithoutAnAnswerCountsBeforeOneThatRefuses) {
  const Layout both = layout({target(1), target(2)});
  server(1).failure = Errc::kNoSpace;
  server(2).waits_in_vain = &executor;
  EXPECT_ERRC(run(io->truncate(Handle(5), intent(230, both), {})), Errc::kTimeout);
  server(2).waits_in_vain = nullptr;
  EXPECT_ERRC(run(io->truncate(Handle(5), intent(230, both), {})), Errc::kNoSpace);
}

TEST_F(MetaIoServers, AnAnswerThatIsTooShortIsRefused) {
  server(2).answers_too_little = true;
  EXPECT_ERRC(run(io->stat(Handle(5), layout({target(2)}), {})), Errc::kProtocol);
  EXPECT_ERRC(run(io->truncate(Handle(5), intent(1, layout({target(2)})), {})), Errc::kProtocol);
}

TEST_F(MetaIoServers, ATargetThatNobodyHoldsIsAnErrorThatNamesIt) {
  const auto sum = run(io->stat(Handle(5), layout({target(1), target(99)}), {}));
  EXPECT_ERRC(sum, Errc::kStaleMap);
  EXPECT_NE(sum.error().message().find(std::to_string(target(99).value)), std::string::npos);
  EXPECT_THAT(server(1).stats, testing::IsEmpty());
}

TEST_F(MetaIoServers, ExactlyTheDatafilesOfTheFilesAreRemoved) {
  std::vector<DeadFile> dead = {{Handle(5), layout({target(1), target(2)})}, {Handle(6), layout({target(2, 1)})}};
  const auto outcome = run(io->remove(dead, WallTime{1234}, {}));
  EXPECT_OK(outcome.failure);
  EXPECT_EQ(outcome.removed, std::vector<bool>({true, true}));
  EXPECT_THAT(outcome.out_of_reach, testing::IsEmpty());
  std::set<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> asked;
  for (std::uint32_t id = 1; id <= kServers; ++id) {
    for (const wire::DatafileRemoveRequest& request : server(id).removes) {
      EXPECT_EQ(request.tombstone_until, WallTime{1234});
      for (const wire::DatafileRef& ref : request.datafiles) {
        EXPECT_TRUE(asked.insert({ref.handle.value, ref.slot.slot, ref.slot.target.value}).second)
            << "asked twice: file " << ref.handle.value << ", slot " << ref.slot.slot;
        EXPECT_EQ(map.server_of_target(ref.slot.target)->id, ServerId(id));
      }
    }
  }
  const decltype(asked) expected = {{5, 0, target(1).value}, {5, 1, target(2).value}, {6, 0, target(2, 1).value}};
  EXPECT_EQ(asked, expected);
}

TEST_F(MetaIoServers, AServerOutOfReachDelaysOnlyTheFilesThatLieOnIt) {
  take_down(2);
  std::vector<DeadFile> dead = {{Handle(5), layout({target(1), target(2)})},
                                {Handle(6), layout({target(3)})},
                                {Handle(7), layout({target(2, 1)})},
                                {Handle(8), layout({target(99)})}};
  const auto outcome = run(io->remove(dead, WallTime{1234}, {}));
  EXPECT_ERRC(outcome.failure, Errc::kStaleMap);
  EXPECT_EQ(outcome.removed, std::vector<bool>({false, true, false, false}));
  EXPECT_EQ(outcome.out_of_reach, std::vector<TargetId>({target(2), target(2, 1), target(99)}));
}

// The server answers: its other files are removed, and its targets count as reached.
TEST_F(MetaIoServers, AFileThatAServerCannotRemoveDelaysNoOther) {
  for (const Errc refusal : {Errc::kIoError, Errc::kTryAgain}) {
    std::vector<DeadFile> dead;
    for (std::uint64_t i = 0; i < 200; ++i) dead.push_back({Handle(10 + i), layout({target(1), target(2)})});
    server(1).refusal = refusal;
    server(1).refused = {Handle(77)};
    server(1).removes.clear();
    const auto outcome = run(io->remove(dead, WallTime{1234}, {}));
    EXPECT_ERRC(outcome.failure, refusal);
    EXPECT_THAT(outcome.out_of_reach, testing::IsEmpty());
    for (std::size_t i = 0; i < dead.size(); ++i) {
      EXPECT_EQ(outcome.removed[i], dead[i].handle != Handle(77)) << dead[i].handle.value;
    }
    EXPECT_EQ(server(1).removed.size(), 199U);
    EXPECT_LT(server(1).removes.size(), 20U);
  }
}

TEST_F(MetaIoServers, ManyRemovalsGoInSeveralRequests) {
  std::vector<DeadFile> dead;
  for (std::uint64_t i = 0; i < 3000; ++i) dead.push_back({Handle(10 + i), layout({target(1)})});
  const auto outcome = run(io->remove(dead, WallTime{1234}, {}));
  EXPECT_OK(outcome.failure);
  std::size_t removed = 0;
  for (const auto& request : server(1).removes) {
    EXPECT_LE(request.datafiles.size(), 2048U);
    removed += request.datafiles.size();
  }
  EXPECT_EQ(removed, 3000U);
}

TEST_F(MetaIoServers, AFenceGoesToEveryServer) {
  EXPECT_OK(run(io->fence(ClientId(4), 3, {})));
  for (std::uint32_t id = 1; id <= kServers; ++id) {
    ASSERT_EQ(server(id).fences.size(), 1U);
    EXPECT_EQ(server(id).fences[0].client, ClientId(4));
    EXPECT_EQ(server(id).fences[0].lowest_epoch, 3U);
  }
  take_down(2);
  const auto fenced = run(io->fence(ClientId(4), 4, {}));
  ASSERT_ERRC(fenced, Errc::kUnreachable);
  EXPECT_NE(fenced.error().message().find("server 2"), std::string::npos) << fenced.error().message();
}

TEST_F(MetaIoServers, AReplyBeforeTheDeadlineNamesTheServerThatIsWaitedFor) {
  server(2).waits_in_vain = &executor;
  const MonoTime before = clock.now();
  const auto cut = run(io->truncate(Handle(5), intent(230, layout({target(2)})), {}));
  ASSERT_ERRC(cut, Errc::kTimeout);
  EXPECT_ERRC(cut, Errc::kTimeout);
  EXPECT_NE(cut.error().message().find("what stands in the way"), std::string::npos) << cut.error().message();
  EXPECT_LE(clock.now() - before, seconds(10));
  EXPECT_GT(clock.now() - before, seconds(9));
  // Both use one clock and the network takes no time, so an answer at the last moment would arrive, too.
  ASSERT_THAT(server(2).gave_up, testing::Not(testing::IsEmpty()));
  EXPECT_LE(server(2).gave_up.front() - before, std::chrono::milliseconds(9100));
}

TEST_F(MetaIoServers, ServersWithoutAnAnswerAreNamedMeanwhile) {
  take_down(3);
  EXPECT_EQ(io->unanswered(Handle(5)), "");
  std::optional<Result<wire::DataSummary>> cut;
  job::Gate gate(executor);
  job::spawn(gate, keep(io->truncate(Handle(5), intent(230, layout({target(1), target(3)})), {}), cut));
  run(rest(seconds(2)));
  EXPECT_EQ(cut, std::nullopt);
  EXPECT_EQ(io->unanswered(Handle(5)), "server 3 (sim://3)");
  EXPECT_EQ(io->unanswered(Handle(6)), "");
  run(rest(seconds(20)));
  ASSERT_NE(cut, std::nullopt) << "the truncation has not ended";
  EXPECT_ERRC(*cut, Errc::kUnreachable);
  EXPECT_EQ(io->unanswered(Handle(5)), "");
}

TEST_F(MetaIoServers, AStoppedRequestDoesNotWait) {
  take_down(2);
  job::DeadlineScope scope(executor, clock.now() + seconds(1), {});
  const MonoTime before = clock.now();
  EXPECT_ERRC(run(io->fence(ClientId(4), 3, scope.token())), Errc::kTimeout);
  EXPECT_LT(clock.now() - before, seconds(5));
}

}  // namespace
}  // namespace spate::meta
