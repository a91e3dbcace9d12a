// SPDX-License-Identifier: Apache-2.0
// Requests for locks: waits, resends, the end of sessions, and what a restart leaves of the locks.
#include <gmock/gmock.h>

#include <optional>

#include "base/expect.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Handle kFile{77};

class MetaFileLocks : public RoleTest {
 protected:
  struct Holder {
    TestClient client;
    std::uint64_t sequence = 0;
    std::uint64_t table = 0;
    std::uint64_t acknowledged = 0;
  };
  Holder holder() { return {connect(), 0, 0, 0}; }

  static wire::LockSpec spec(LockMode mode, std::uint64_t owner = 1, std::uint64_t first = 0,
                             std::uint64_t last = LockRange::kToEnd) {
    return {kFile, LockKind::kProcess, owner, 4711, mode, first, last};
  }
  static wire::LockRequest request(Holder& h, const wire::LockSpec& lock, bool wait = false) {
    const std::uint64_t sequence = ++h.sequence;
    return {lock, wait, sequence, sequence, h.table};
  }
  Result<wire::LockReply> send(Holder& h, const wire::LockRequest& request) {
    auto reply = asked<wire::LockReply>(h.client, request, no_id());
    if (reply) h.table = reply->table;
    return reply;
  }
  Result<wire::LockReply> lock(Holder& h, const wire::LockSpec& spec, bool wait = false) {
    return send(h, request(h, spec, wait));
  }
  /// The events that are there now, without a wait.
  std::vector<wire::SessionEvent> events(Holder& h) {
    const wire::SessionEventsRequest ask{h.table, h.acknowledged, 0};
    const auto reply = asked<wire::SessionEventsReply>(h.client, ask, no_id());
    EXPECT_OK(reply);
    if (!reply->events.empty()) h.acknowledged = reply->events.back().number;
    return reply->events;
  }
  Result<wire::LockReclaimReply> reclaim(Holder& h, std::vector<wire::LockSpec> locks) {
    const wire::LockReclaimRequest request{std::move(locks), true};
    auto reply = asked<wire::LockReclaimReply>(h.client, request, no_id());
    if (reply) h.table = reply->table;
    return reply;
  }
  ::testing::AssertionResult locked_by_others(Holder& h) {
    const wire::LockTestRequest request{spec(LockMode::kExclusive, 99)};
    const auto reply = asked<wire::LockTestReply>(h.client, request, no_id());
    EXPECT_OK(reply);
    if (!reply->conflict) return ::testing::AssertionFailure() << "nobody else has locked the file";
    return ::testing::AssertionSuccess() << "another client has locked " << reply->conflict->first << " to "
                                         << reply->conflict->last;
  }
};

TEST_F(MetaFileLocks, AreTakenTestedAndReleasedAcrossClients) {
  Holder a = holder();
  Holder b = holder();
  EXPECT_OK(lock(a, spec(LockMode::kExclusive, 1, 10, 19)));
  EXPECT_ERRC(lock(b, spec(LockMode::kShared, 1, 0, 10)), Errc::kTryAgain);
  EXPECT_OK(lock(b, spec(LockMode::kShared, 1, 0, 9)));
  const wire::LockTestRequest ask{spec(LockMode::kExclusive, 5, 15, 30)};
  const auto found = asked<wire::LockTestReply>(b.client, ask, no_id());
  ASSERT_OK(found);
  ASSERT_NE(found->conflict, std::nullopt);
  EXPECT_EQ(found->client, a.client.id);
  EXPECT_EQ(found->conflict->pid, 4711U);
  EXPECT_EQ(found->conflict->first, 10U);
  EXPECT_OK(lock(a, spec(LockMode::kNone)));
  EXPECT_OK(lock(b, spec(LockMode::kShared, 1, 0, 10)));
}

TEST_F(MetaFileLocks, AnEventReportsAGrantedWaitWithoutAPendingRequest) {
  Holder a = holder();
  Holder b = holder();
  ASSERT_OK(lock(a, spec(LockMode::kExclusive)));
  const auto queued = lock(b, spec(LockMode::kExclusive), true);
  ASSERT_OK(queued);
  ASSERT_TRUE(queued->queued) << "it does not wait";
  auto told = begin<wire::SessionEventsReply>(b.client, wire::SessionEventsRequest{b.table, 0, 9000}, no_id());
  EXPECT_EQ(told->result, std::nullopt);
  ASSERT_OK(lock(a, spec(LockMode::kNone)));
  run_ready();
  ASSERT_OK(told->result);
  ASSERT_EQ((*told->result)->events.size(), 1U);
  EXPECT_EQ((*told->result)->events[0].type, wire::SessionEventType::kLockGranted);
  EXPECT_EQ((*told->result)->events[0].subject, b.sequence);
  EXPECT_EQ(events(b).size(), 1U);  // repeated until it is acknowledged
  EXPECT_THAT(events(b), testing::IsEmpty());
  EXPECT_TRUE(locked_by_others(a));
}

TEST_F(MetaFileLocks, ARequestThatComesAfterItsCancellationLocksNothing) {
  Holder a = holder();
  Holder b = holder();
  const wire::LockRequest late = request(a, spec(LockMode::kExclusive), true);
  EXPECT_FALSE(asked<wire::LockCancelReply>(a.client, wire::LockCancelRequest{late.sequence}, no_id())->ended)
      << "a wait is said to have ended";
  EXPECT_ERRC(send(a, late), Errc::kCancelled);
  EXPECT_FALSE(locked_by_others(b));
}

TEST_F(MetaFileLocks, ARequestForEventsEndsAtItsTimeoutOrWhenANewerOneComes) {
  Holder a = holder();
  ASSERT_OK(lock(a, spec(LockMode::kExclusive)));
  auto first = begin<wire::SessionEventsReply>(a.client, wire::SessionEventsRequest{a.table, 0, 5000}, no_id());
  auto second = begin<wire::SessionEventsReply>(a.client, wire::SessionEventsRequest{a.table, 0, 5000}, no_id());
  EXPECT_OK(first->result);
  EXPECT_EQ(second->result, std::nullopt);
  wait(seconds(5));
  ASSERT_OK(second->result);
  EXPECT_THAT((*second->result)->events, testing::IsEmpty());
}

TEST_F(MetaFileLocks, ACancelledWaitGetsNothing) {
  Holder a = holder();
  Holder b = holder();
  ASSERT_OK(lock(a, spec(LockMode::kExclusive)));
  ASSERT_OK(lock(b, spec(LockMode::kExclusive), true));
  const wire::LockCancelRequest cancel{b.sequence};
  EXPECT_TRUE(asked<wire::LockCancelReply>(b.client, cancel, no_id())->ended) << "no wait is said to have ended";
  EXPECT_FALSE(asked<wire::LockCancelReply>(b.client, cancel, no_id())->ended) << "a wait is said to have ended again";
  ASSERT_OK(lock(a, spec(LockMode::kNone)));
  EXPECT_THAT(events(b), testing::IsEmpty());
  EXPECT_FALSE(locked_by_others(a));
}

TEST_F(MetaFileLocks, AResendIsAnsweredAndALateCopyRefused) {
  Holder a = holder();
  wire::LockRequest first = request(a, spec(LockMode::kExclusive));
  EXPECT_OK(send(a, first));
  EXPECT_OK(send(a, first));
  EXPECT_OK(lock(a, spec(LockMode::kNone)));
  EXPECT_ERRC(send(a, first), Errc::kForgottenRequest);  // it would take a lock that nobody releases
  Holder b = holder();
  EXPECT_FALSE(locked_by_others(b));
}

TEST_F(MetaFileLocks, DeadlocksAreFoundBetweenClients) {
  Holder a = holder();
  Holder b = holder();
  ASSERT_OK(lock(a, spec(LockMode::kExclusive, 1, 0, 0)));
  ASSERT_OK(lock(b, spec(LockMode::kExclusive, 1, 1, 1)));
  EXPECT_TRUE(lock(a, spec(LockMode::kExclusive, 1, 1, 1), true)->queued) << "it does not wait";
  EXPECT_ERRC(lock(b, spec(LockMode::kExclusive, 1, 0, 0), true), Errc::kDeadlock);
}

TEST_F(MetaFileLocks, LocksOfASilentClientPassToOthersOnlyAfterTheFence) {
  Holder a = holder();
  Holder b = holder();
  const Handle file = make_file(a.client, "f", 1);
  ASSERT_OK(open_file(a.client, "f", wire::kOpenWrite));
  wire::LockSpec lock_of_file = spec(LockMode::kExclusive);
  lock_of_file.handle = file;
  ASSERT_OK(lock(a, lock_of_file));
  ASSERT_TRUE(lock(b, lock_of_file, true)->queued) << "it does not wait";
  io.hold();
  wait_alive(b.client, options.session_lease + seconds(10));
  EXPECT_THAT(events(b), testing::IsEmpty());
  io.release();
  wait_alive(b.client, seconds(10));
  EXPECT_EQ(events(b).size(), 1U);
  EXPECT_FALSE(write(a.client, file, 100));
}

TEST_F(MetaFileLocks, AreReleasedByAnOrderlyEnd) {
  Holder a = holder();
  Holder b = holder();
  ASSERT_OK(lock(a, spec(LockMode::kExclusive)));
  ASSERT_OK(lock(b, spec(LockMode::kExclusive), true));
  ASSERT_OK(asked<wire::Empty>(a.client, wire::EndSessionRequest(), no_id()));
  wait(seconds(1));
  EXPECT_EQ(events(b).size(), 1U);
}

TEST_F(MetaFileLocks, AreReclaimedAfterARestartBeforeAnybodyGetsNewOnes) {
  Holder a = holder();
  Holder b = holder();
  ASSERT_OK(lock(a, spec(LockMode::kExclusive, 1, 0, 9)));
  ASSERT_OK(lock(b, spec(LockMode::kShared, 1, 20, 29)));
  restart();
  Holder c = holder();
  EXPECT_ERRC(lock(c, spec(LockMode::kShared, 1, 0, 9)), Errc::kBusy);
  EXPECT_ERRC(lock(a, spec(LockMode::kNone)), Errc::kLocksForgotten);
  ASSERT_OK(reclaim(a, {spec(LockMode::kExclusive, 1, 0, 9)}));
  ASSERT_OK(reclaim(a, {spec(LockMode::kExclusive, 1, 0, 9)}));  // a resend
  EXPECT_ERRC(lock(c, spec(LockMode::kShared, 1, 50, 59)), Errc::kBusy);
  const auto second = reclaim(b, {spec(LockMode::kShared, 1, 20, 29), spec(LockMode::kShared, 2, 5, 5)});
  ASSERT_OK(second);
  EXPECT_EQ(second->lost, std::vector<std::uint32_t>{1});
  EXPECT_ERRC(lock(c, spec(LockMode::kShared, 1, 0, 9)), Errc::kTryAgain);
  EXPECT_OK(lock(c, spec(LockMode::kShared, 1, 20, 29)));
  EXPECT_ERRC(reclaim(c, {spec(LockMode::kShared, 1, 40, 40)}), Errc::kLostLock);
}

TEST_F(MetaFileLocks, LocksOfAClientThatDiedWithTheServerStayUntilItIsFenced) {
  Holder a = holder();
  ASSERT_OK(lock(a, spec(LockMode::kExclusive)));
  restart();
  Holder b = holder();
  wait_alive(b.client, options.session_lease - seconds(10));
  EXPECT_ERRC(lock(b, spec(LockMode::kExclusive)), Errc::kBusy);
  wait_alive(b.client, seconds(20));
  EXPECT_OK(lock(b, spec(LockMode::kExclusive)));
}

TEST_F(MetaFileLocks, LocksThatAreNotReclaimedPassToOthersOnceTheirClientIsFenced) {
  Holder a = holder();
  ASSERT_OK(lock(a, spec(LockMode::kExclusive)));
  restart();
  Holder b = holder();
  for (Duration passed{0}; passed < options.session_lease * 2; passed += seconds(5)) {
    wait_alive(a.client, seconds(5));
    ASSERT_OK(keep_alive(b.client));
  }
  io.hold();
  EXPECT_ERRC(lock(b, spec(LockMode::kExclusive)), Errc::kBusy);
  wait_alive(b.client, seconds(5));
  EXPECT_ERRC(lock(b, spec(LockMode::kExclusive)), Errc::kBusy) << "what its former holder writes may still come";
  io.release();
  wait_alive(b.client, seconds(5));
  EXPECT_EQ(io.fences[a.client.id], 2U);
  EXPECT_OK(lock(b, spec(LockMode::kExclusive)));
  EXPECT_ERRC(reclaim(a, {spec(LockMode::kExclusive)}), Errc::kSessionFenced);
}

TEST_F(MetaFileLocks, AServerWithoutLocksKeepsNobodyWaitingAfterARestart) {
  Holder a = holder();
  ASSERT_OK(lock(a, spec(LockMode::kExclusive)));
  ASSERT_OK(asked<wire::Empty>(a.client, wire::EndSessionRequest(), no_id()));
  wait(seconds(1));
  restart();
  Holder b = holder();
  EXPECT_OK(lock(b, spec(LockMode::kExclusive)));
}

TEST_F(MetaFileLocks, NonsenseIsRefused) {
  Holder a = holder();
  for (const auto spoil : std::initializer_list<void (*)(wire::LockSpec&)>{
           [](wire::LockSpec& s) { s.handle = Handle(); }, [](wire::LockSpec& s) { s.first = 5, s.last = 4; },
           [](wire::LockSpec& s) { s.last = UINT64_MAX; }, [](wire::LockSpec& s) { s.mode = static_cast<LockMode>(3); },
           [](wire::LockSpec& s) { s.kind = static_cast<LockKind>(5); },
           [](wire::LockSpec& s) { s.kind = LockKind::kFlock, s.last = 9; },
           [](wire::LockSpec& s) { s.kind = LockKind::kAppend; }}) {
    wire::LockSpec bad = spec(LockMode::kExclusive);
    spoil(bad);
    EXPECT_ERRC(lock(a, bad), Errc::kInvalidArgument);
  }
  wire::LockRequest no_sequence = request(a, spec(LockMode::kExclusive));
  no_sequence.sequence = 0;
  EXPECT_ERRC(send(a, no_sequence), Errc::kInvalidArgument);
  EXPECT_EQ(role->locks().pieces(), 0U);
}

}  // namespace
}  // namespace spate::meta
