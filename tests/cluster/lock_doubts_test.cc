// SPDX-License-Identifier: Apache-2.0
// The answers to lock requests are lost. After a restart of the meta server no client may claim a lock that others may
// hold, nor append with a right that it may not have, and no lock may stay that no client knows of.

#include <array>

#include "base/expect.h"
#include "job/deadline.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kAppended = 700;

wire::LockSpec whole_file(LockMode mode) {
  wire::LockSpec lock;
  lock.handle = kRootHandle;
  lock.kind = LockKind::kFlock;
  lock.owner = 1;
  lock.mode = mode;
  return lock;
}

/// A session lease that is longer than the time that a request waits for its answer.
WorldOptions patient_sessions() {
  WorldOptions options;
  options.session_lease = std::chrono::minutes(2);
  return options;
}

class LockDoubts {
 public:
  LockDoubts() : world_(patient_sessions()) {}

  client::Locks& locks(ClientProcess& client) { return client.client().cluster().locks(); }
  job::Task<Result<void>> set(ClientProcess& client, LockMode mode, bool wait = false) {
    return locks(client).set(whole_file(mode), wait);
  }
  Errc lock(ClientProcess& client, LockMode mode, bool wait = false) {
    return call(world_, client, set(client, mode, wait)).code();
  }
  bool holds(ClientProcess& client) { return locks(client).holds(kRootHandle, {LockKind::kFlock, 1}); }
  void part(ClientProcess& client, bool parted) {
    world_.fabric().links().partition(kMetaServer.value, client.node(), parted);
  }
  /// Cuts the client off `after` the request was sent. Returns whether the answer was lost.
  template <typename T>
  bool lose_answer(ClientProcess& client, const Outcome<T>& request, Duration after) {
    world_.run_for(after);
    part(client, true);
    const bool lost = !request->has_value();
    std::ignore = end_call(world_, request);
    return lost;
  }
  /// Restarts the meta server. The client `later` reaches it a second after the other one.
  void start_meta(ClientProcess& later) {
    part(later, true);
    world_.start_server(kMetaServer);
    world_.run_for(seconds(1));
    part(later, false);
    world_.run_for(world_.settings().session_lease);  // a keep-alive tells the client of the restart
  }

  World world_;
  ClientProcess& one_ = world_.start_client();
  ClientProcess& two_ = world_.start_client();
};

TEST(LockDoubtsTest, ALockThatWasNotGrantedIsNotReclaimed) {
  LockDoubts doubts;
  ASSERT_EQ(doubts.lock(doubts.two_, LockMode::kExclusive), Errc::kOk);
  ASSERT_EQ(doubts.lock(doubts.two_, LockMode::kNone), Errc::kOk);
  ASSERT_EQ(doubts.lock(doubts.one_, LockMode::kExclusive), Errc::kOk);
  doubts.world_.kill_server(kMetaServer, Death::kProcess);
  ASSERT_NE(doubts.lock(doubts.two_, LockMode::kExclusive), Errc::kOk);
  doubts.start_meta(doubts.one_);
  EXPECT_TRUE(doubts.holds(doubts.one_)) << "its lock was claimed by another";
  EXPECT_EQ(doubts.lock(doubts.two_, LockMode::kExclusive), Errc::kTryAgain);
}

/// The client's only answer is a refusal, which does not name the server process that gave it.
TEST(LockDoubtsTest, AClientWhoseOnlyLockWasRefusedDelaysNobodyAfterARestart) {
  LockDoubts doubts;
  ASSERT_EQ(doubts.lock(doubts.one_, LockMode::kExclusive), Errc::kOk);
  ASSERT_EQ(doubts.lock(doubts.two_, LockMode::kExclusive), Errc::kTryAgain);
  doubts.world_.kill_server(kMetaServer, Death::kProcess);
  doubts.start_meta(doubts.one_);
  EXPECT_EQ(doubts.lock(doubts.two_, LockMode::kExclusive), Errc::kTryAgain);
}

TEST(LockDoubtsTest, ALockThatMayHaveBeenReleasedIsNotReclaimed) {
  int lost = 0;
  for (Duration after{0}; after < milliseconds(1); after += microseconds(20)) {
    LockDoubts doubts;
    ASSERT_EQ(doubts.lock(doubts.one_, LockMode::kExclusive), Errc::kOk);
    ASSERT_EQ(doubts.lock(doubts.two_, LockMode::kExclusive), Errc::kTryAgain);
    const auto released = begin_call(doubts.one_, doubts.set(doubts.one_, LockMode::kNone));
    if (!doubts.lose_answer(doubts.one_, released, after)) continue;
    if (doubts.lock(doubts.two_, LockMode::kExclusive) != Errc::kOk) continue;  // the release was lost, not its answer
    ++lost;
    doubts.world_.kill_server(kMetaServer, Death::kProcess);
    doubts.part(doubts.one_, false);
    doubts.start_meta(doubts.two_);
    EXPECT_TRUE(doubts.holds(doubts.two_)) << "its lock was claimed by another";
    EXPECT_EQ(doubts.lock(doubts.one_, LockMode::kExclusive), Errc::kTryAgain);
  }
  EXPECT_GT(lost, 0);
}

TEST(LockDoubtsTest, AWaitWhoseAnswerIsLostTakesNoLock) {
  int lost = 0;
  for (Duration after{0}; after < milliseconds(1); after += microseconds(20)) {
    LockDoubts doubts;
    ClientProcess& third = doubts.world_.start_client();
    ASSERT_EQ(doubts.lock(doubts.one_, LockMode::kExclusive), Errc::kOk);
    ASSERT_EQ(doubts.lock(doubts.two_, LockMode::kExclusive), Errc::kTryAgain);
    ASSERT_EQ(doubts.lock(third, LockMode::kExclusive), Errc::kTryAgain);
    const auto waits = begin_call(doubts.two_, doubts.set(doubts.two_, LockMode::kExclusive, true));
    doubts.world_.run_for(after);
    doubts.part(doubts.two_, true);
    doubts.world_.run_for(seconds(30));
    if (!waits->has_value()) continue;  // the answer has arrived: the client waits
    ++lost;
    ASSERT_NE((*waits)->code(), Errc::kOk);
    doubts.part(doubts.two_, false);
    EXPECT_EQ(doubts.lock(doubts.one_, LockMode::kNone), Errc::kOk);
    doubts.world_.run_for(seconds(10));
    ASSERT_EQ(doubts.lock(third, LockMode::kExclusive), Errc::kOk) << "locked by who gave up waiting";
  }
  EXPECT_GT(lost, 0);
}

class Appending : public LockDoubts {
 public:
  std::unique_ptr<client::File> open(ClientProcess& client) {
    auto made = call(world_, client, client.client().create(client::path_from_root("log"), wire::kOpenWrite, {}));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  job::Task<Result<std::uint64_t>> append(client::File& file) { return file.append(memory_); }

 private:
  const Bytes record_ = Bytes(kAppended, std::byte{'x'});
  const std::array<ByteView, 1> memory_{ByteView(record_)};
};

TEST(LockDoubtsTest, AnAppendRightThatWasNotGrantedIsRequestedAgain) {
  Appending doubts;
  const auto first = doubts.open(doubts.one_);
  const auto second = doubts.open(doubts.two_);
  ASSERT_OK(call(doubts.world_, doubts.one_, doubts.append(*first)));
  doubts.part(doubts.two_, true);
  ASSERT_FALSE(call(doubts.world_, doubts.two_, doubts.append(*second)));
  EXPECT_FALSE(doubts.locks(doubts.two_).holds(first->handle(), {LockKind::kAppend, 0}));
  doubts.part(doubts.two_, false);
  std::uint64_t appends = 1;
  for (int round = 0; round < 100; ++round) {
    const auto one = begin_call(doubts.one_, doubts.append(*first));
    doubts.world_.run_for(microseconds(doubts.world_.random().below(200)));
    const auto two = begin_call(doubts.two_, doubts.append(*second));
    ASSERT_OK(end_call(doubts.world_, one));
    ASSERT_OK(end_call(doubts.world_, two));
    appends += 2;
    const auto found = call(doubts.world_, doubts.one_, doubts.one_.client().stat(client::path_from_root("log")));
    ASSERT_OK(found);
    ASSERT_EQ(found->attributes.size, appends * kAppended) << "two appends went to one place in round " << round;
  }
}

}  // namespace
}  // namespace spate::cluster
