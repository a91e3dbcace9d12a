// SPDX-License-Identifier: Apache-2.0
// EtcdCoordinator with members of etcd that run on this machine.
#include <algorithm>

#include "base/expect.h"
#include "coord/etcd/etcd_coordinator.h"
#include "coord/etcd/etcd_fixture.h"
#include "job/deadline.h"
#include "job/gate.h"

namespace spate::coord {
namespace {

constexpr Duration kStart = std::chrono::seconds(60);

class EtcdServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (etcd_program().empty()) GTEST_SKIP() << "no etcd here: install etcd-server, or set SPATE_ETCD";
  }

  /// Starts a cluster and waits until it answers. A busy machine makes members slow, and only a test of the timeout is
  /// about that.
  void start(std::size_t members) {
    members_ = std::make_unique<EtcdMembers>(members);
    wait_for_each_answer(kStart);
    const MonoTime until = clock_.now() + kStart;
    auto seen = read("");
    while (!seen && clock_.now() < until) {
      executor_.run(rest());
      seen = read("");
    }
    ASSERT_OK(seen);
  }
  void wait_for_each_answer(Duration at_most) {
    EtcdOptions options{members_->urls()};
    options.timeout = options.look_timeout = at_most;
    coordinator_ = std::make_unique<EtcdCoordinator>(options, executor_);
  }
  job::Task<void> rest() { std::ignore = co_await executor_.sleep(std::chrono::milliseconds(50)); }
  Result<Snapshot> read(std::string prefix) { return executor_.run(coordinator_->read(std::move(prefix), {})); }
  /// The existing record, as soon as the service answers.
  Record record_at_last(const std::string& key) {
    const MonoTime until = clock_.now() + kStart;
    auto seen = read(key);
    while (!seen && clock_.now() < until) seen = read(key);
    return seen && !seen->records.empty() ? seen->records.front() : Record{};
  }
  std::string value_at_last(const std::string& key) { return std::string(as_text(record_at_last(key).value)); }
  /// Retries until it is known whether this change is made or another one (kConflict). No other change may write the
  /// same value.
  Result<std::uint64_t> put(const std::string& key, const std::string& value, std::uint64_t from) {
    const MonoTime until = clock_.now() + kStart;
    for (bool again = false;; again = true) {
      Change change;
      change.compare(key, from).put(key, to_bytes(as_bytes(value)));
      auto made = executor_.run(coordinator_->change(std::move(change), {}));
      if (made.code() == Errc::kTimeout && clock_.now() < until) continue;
      if (made.code() != Errc::kConflict || !again) return made;
      // An earlier attempt may have been made although its answer was lost. Then this one conflicts with it.
      const Record there = record_at_last(key);
      return as_text(there.value) == value ? Result<std::uint64_t>(there.revision) : made;
    }
  }

  SystemClock clock_;
  job::Executor executor_{clock_};
  std::unique_ptr<EtcdMembers> members_;
  std::unique_ptr<EtcdCoordinator> coordinator_;
};

TEST_F(EtcdServiceTest, ChangeIsMadeOnlyFromTheRevisionThatItNames) {
  start(1);
  const auto first = put("group/1", "a", 0);
  ASSERT_OK(first);
  EXPECT_ERRC(put("group/1", "b", 0), Errc::kConflict);
  EXPECT_OK(put("group/1", "c", *first));
  EXPECT_ERRC(put("group/1", "d", *first), Errc::kConflict);
  const auto seen = read("group/");
  ASSERT_OK(seen);
  ASSERT_EQ(seen->records.size(), 1U);
  EXPECT_EQ(as_text(seen->records.front().value), "c");
}

TEST_F(EtcdServiceTest, ChangeOfSeveralRecordsIsMadeAsAWholeOrNotAtAll) {
  start(1);
  ASSERT_OK(put("a", "1", 0));
  Change change;
  change.compare("a", 0).compare("b", 0).put("a", {}).put("b", {});
  EXPECT_ERRC(executor_.run(coordinator_->change(std::move(change), {})), Errc::kConflict);
  EXPECT_EQ(read("b")->records.size(), 0U);
  Change erase;
  erase.compare("b", 0);
  erase.erases.emplace_back("a");
  EXPECT_OK(executor_.run(coordinator_->change(std::move(erase), {})));
  EXPECT_EQ(read("a")->records.size(), 0U);
}

TEST_F(EtcdServiceTest, TheLargestChangeIsMade) {
  start(1);
  Change change;
  for (std::size_t i = 0; i < kMaxChangeKeys; ++i) change.put("k" + std::to_string(i), {});
  EXPECT_OK(executor_.run(coordinator_->change(std::move(change), {})));
  EXPECT_EQ(read("k")->records.size(), kMaxChangeKeys);
}

TEST_F(EtcdServiceTest, OneOfThreeMembersMayDie) {
  start(3);
  const auto revision = put("k", "1", 0);
  ASSERT_OK(revision);
  members_->kill(0);
  EXPECT_OK(put("k", "2", *revision));
  EXPECT_EQ(value_at_last("k"), "2");
}

/// Lets paused members go on when the change has ended, or after so long that a second member would have been asked.
job::Task<void> resume_later(job::Executor& executor, EtcdMembers& members, Duration at_most, job::StopToken ended) {
  std::ignore = co_await executor.sleep(at_most, std::move(ended));
  members.resume(1);
  members.resume(2);
}

job::Task<Result<std::uint64_t>> change_without_quorum(EtcdCoordinator& coordinator, job::Executor& executor,
                                                       EtcdMembers& members, Change change, Duration resume_after) {
  job::StopSource ended;
  job::Gate gate(executor);
  job::spawn(gate, resume_later(executor, members, resume_after, ended));
  auto made = co_await coordinator.change(std::move(change), {});
  ended.request_stop();
  co_await gate.close();
  co_return made;
}

/// The first member that is asked keeps the request, and may carry it out when the others are back. If another member
/// were asked, too, the change would be made twice, or conflict with itself: the caller would take it for not made.
TEST_F(EtcdServiceTest, WithoutAQuorumAChangeIsSentOnceAndItsOutcomeIsUnknown) {
  start(3);
  const auto first = put("k", "1", 0);
  ASSERT_OK(first);
  EtcdOptions options{members_->urls()};
  options.timeout = std::chrono::seconds(2);  // less than the 7 s after which etcd gives up
  coordinator_ = std::make_unique<EtcdCoordinator>(options, executor_);
  members_->pause(1);
  members_->pause(2);
  Change change;
  change.compare("k", *first).put("k", to_bytes(as_bytes(std::string("2"))));
  const auto made =
      executor_.run(change_without_quorum(*coordinator_, executor_, *members_, std::move(change), 2 * options.timeout));
  EXPECT_ERRC(made, Errc::kTimeout);
  // Another change from the same revision settles the outcome: one of the two is made.
  wait_for_each_answer(kStart);
  const auto settled = put("k", "3", *first);
  const Record there = record_at_last("k");
  EXPECT_EQ(as_text(there.value), settled ? "3" : "2");
  EXPECT_EQ(there.revision, *first + 1) << "etcd counts its changes: there were more than one";
}

/// A member says itself whether it reaches the others; one that stands still accepts connections, and answers nothing.
TEST_F(EtcdServiceTest, EachMemberIsAskedByItself) {
  start(3);
  ASSERT_OK(put("k", "1", 0));
  const auto voters = executor_.run(coordinator_->list({}));
  ASSERT_OK(voters);
  const auto check = [&](const char* name) {
    const auto found = std::ranges::find(*voters, name, &Voter::name);
    return executor_.run(coordinator_->check(found->client_url, {}));
  };
  EXPECT_OK(check("m0"));
  members_->pause(1);
  wait_for_each_answer(std::chrono::seconds(2));
  EXPECT_ERRC(check("m1"), Errc::kTimeout);
  wait_for_each_answer(kStart);
  members_->kill(2);
  EXPECT_ERRC(check("m2"), Errc::kUnreachable);
  const MonoTime until = clock_.now() + kStart;
  while (check("m0") && clock_.now() < until) {  // until it has noticed that it is alone
  }
  EXPECT_ERRC(check("m0"), Errc::kTryAgain);
  members_->resume(1);
}

/// It would be asked first, and answer after an hour.
TEST_F(EtcdServiceTest, AMemberThatSaysNothingDoesNotHoldUpTheList) {
  start(3);
  EtcdOptions options{members_->urls()};
  options.timeout = options.look_timeout = std::chrono::hours(1);
  coordinator_ = std::make_unique<EtcdCoordinator>(options, executor_);
  members_->pause(0);
  job::DeadlineScope limit(executor_, clock_.now() + kStart, {});  // so that the test fails instead of hanging
  const auto voters = executor_.run(coordinator_->list(limit.token()));
  ASSERT_OK(voters);
  EXPECT_EQ(voters->size(), 3U);
  members_->resume(0);
}

TEST_F(EtcdServiceTest, WithoutMembersARequestSoonFails) {
  coordinator_ = std::make_unique<EtcdCoordinator>(EtcdOptions{{"http://127.0.0.1:1"}}, executor_);
  EXPECT_ERRC(read("k"), Errc::kUnreachable);
  EXPECT_ERRC(put("k", "v", 0), Errc::kUnreachable);
}

/// A member is added without a vote, so the others go on before it has started; it can be taken out again.
TEST_F(EtcdServiceTest, AMemberIsAddedAndRemoved) {
  start(1);
  const std::string peer = "http://127.0.0.1:9";
  ASSERT_OK(executor_.run(coordinator_->add(peer, {})));
  EXPECT_ERRC(executor_.run(coordinator_->add(peer, {})), Errc::kTryAgain);  // it is there already
  auto voters = executor_.run(coordinator_->list({}));
  ASSERT_OK(voters);
  ASSERT_EQ(voters->size(), 2U);
  std::ranges::sort(*voters, {}, &Voter::learner);
  EXPECT_EQ(voters->front().name, "m0");
  EXPECT_EQ(voters->back().peer_url, peer);
  EXPECT_TRUE(voters->back().learner) << voters->back().name;
  EXPECT_EQ(voters->back().name, "");
  EXPECT_ERRC(executor_.run(coordinator_->promote(voters->back().id, {})), Errc::kTryAgain);  // it has no records yet
  EXPECT_OK(put("group/1", "one", 0));
  ASSERT_OK(executor_.run(coordinator_->remove(voters->back().id, {})));
  voters = executor_.run(coordinator_->list({}));
  ASSERT_OK(voters);
  EXPECT_EQ(voters->size(), 1U);
}

}  // namespace
}  // namespace spate::coord
