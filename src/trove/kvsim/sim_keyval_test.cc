// SPDX-License-Identifier: Apache-2.0
#include "trove/kvsim/sim_keyval.h"

#include <array>
#include <optional>
#include <string>

#include "base/expect.h"

namespace spate::trove {
namespace {

constexpr int kCommits = 40;

std::string key_of(int number) { return "k" + std::to_string(1000 + number); }

class SimKeyvalTest : public testing::Test {
 protected:
  SimKeyval& open(std::uint64_t seed, SimKeyvalOptions options = {}) {
    random_.emplace(seed);
    return store_.emplace(disk_, clock_, *random_, options);
  }

  /// Runs time until a completion comes.
  KeyvalCompletion wait() {
    std::array<KeyvalCompletion, 1> out;
    while (store_->test(out) == 0) {
      SPATE_CHECK(store_->next_event_time() != MonoTime::never());
      store_->run_until(store_->next_event_time());
    }
    return std::move(out[0]);
  }

  Errc commit(int number, Durability durability) {
    const auto transaction = store_->begin();
    transaction->put(as_bytes(key_of(number)), as_bytes("v"));
    KeyvalCompletion done;
    return transaction->post_commit(durability, nullptr, done) ? done.status : wait().status;
  }

  /// The values must be 0, 1, 2 and so on without a gap. Returns how many there are.
  int survivors() {
    const auto transaction = store_->begin();
    KeyRange range;
    range.begin = to_bytes(as_bytes("k"));
    range.end = to_bytes(as_bytes("l"));
    range.limit = 1000;
    KeyvalCompletion done;
    if (!transaction->post_range(range, nullptr, done)) done = wait();
    EXPECT_EQ(done.status, Errc::kOk);
    int n = 0;
    for (const KeyValue& entry : done.entries) EXPECT_EQ(as_text(entry.key), key_of(n++));
    return n;
  }

  ManualClock clock_;
  SimKeyvalDisk disk_;
  std::optional<SeededRandom> random_;
  std::optional<SimKeyval> store_;
};

TEST_F(SimKeyvalTest, KilledProcessLosesNothingThatWasAcknowledged) {
  open(1);
  for (int i = 0; i < kCommits; ++i) ASSERT_EQ(commit(i, Durability::kProcess), Errc::kOk);
  store_->kill();
  open(2);
  EXPECT_EQ(survivors(), kCommits);
}

TEST_F(SimKeyvalTest, CrashedMachineKeepsAPrefixAtLeastAsLongAsTheSyncedOne) {
  int lost_some = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimKeyvalDisk disk;
    ManualClock clock;
    SeededRandom random(seed);
    store_.emplace(disk, clock, random, SimKeyvalOptions{});
    const int synced = static_cast<int>(random.below(kCommits));
    for (int i = 0; i < kCommits; ++i) {
      ASSERT_EQ(commit(i, i == synced ? Durability::kMachine : Durability::kProcess), Errc::kOk);
    }
    store_->kill();
    disk.crash_machine(random);
    store_.reset();
    store_.emplace(disk, clock, random, SimKeyvalOptions{});
    const int left = survivors();
    EXPECT_GT(left, synced) << "seed " << seed;
    EXPECT_LE(left, kCommits);
    lost_some += left < kCommits ? 1 : 0;
    store_.reset();
  }
  EXPECT_GT(lost_some, 10);
}

TEST_F(SimKeyvalTest, SyncMakesEverythingBeforeItDurable) {
  open(3);
  for (int i = 0; i < kCommits; ++i) ASSERT_EQ(commit(i, Durability::kProcess), Errc::kOk);
  KeyvalCompletion done;
  if (!store_->post_sync(nullptr, done)) done = wait();
  ASSERT_EQ(done.status, Errc::kOk);
  store_->kill();
  disk_.crash_machine(*random_);
  open(4);
  EXPECT_EQ(survivors(), kCommits);
}

TEST_F(SimKeyvalTest, OpeningMakesTheEarlierProcessesCommitsDurable) {
  const auto left_after = [this](std::uint64_t seed, bool sync_recovered) {
    SimKeyvalDisk disk;
    SeededRandom random(seed);
    SimKeyvalOptions options;
    options.sync_recovered = sync_recovered;
    store_.emplace(disk, clock_, random, options);
    for (int i = 0; i < kCommits; ++i) EXPECT_EQ(commit(i, Durability::kProcess), Errc::kOk);
    store_->kill();
    store_.emplace(disk, clock_, random, options);
    EXPECT_EQ(commit(kCommits, Durability::kMachine), Errc::kOk);
    store_->kill();
    disk.crash_machine(random);
    const std::size_t left = disk.contents().size();
    store_.reset();
    return left;
  };
  std::size_t lost = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(left_after(seed, true), kCommits + 1U) << seed;
    lost += kCommits + 1U - left_after(seed, false);
  }
  EXPECT_GT(lost, 0U);  // else the faulty store would show nothing
}

TEST_F(SimKeyvalTest, KillCancelsOperationsInFlightAndEveryLaterPost) {
  SimKeyvalOptions slow;
  slow.immediate_per_mille = 0;
  open(5, slow);
  const auto transaction = store_->begin();
  const auto later = store_->begin();
  transaction->put(as_bytes(key_of(0)), as_bytes("v"));
  KeyvalCompletion done;
  int user = 0;
  ASSERT_FALSE(transaction->post_commit(Durability::kProcess, &user, done));
  store_->kill();
  std::array<KeyvalCompletion, 2> out;
  ASSERT_EQ(store_->test(out), 1U);
  EXPECT_EQ(out[0].user, &user);
  EXPECT_EQ(out[0].status, Errc::kCancelled);
  EXPECT_EQ(store_->next_event_time(), MonoTime::never());
  ASSERT_TRUE(later->post_get(as_bytes("k"), ReadMode::kChecked, &user, done));
  EXPECT_EQ(done.status, Errc::kCancelled);
}

TEST_F(SimKeyvalTest, KilledCommitIsThereOrNotBySeed) {
  int there = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SimKeyvalDisk disk;
    ManualClock clock;
    SeededRandom random(seed);
    SimKeyvalOptions slow;
    slow.immediate_per_mille = 0;
    store_.emplace(disk, clock, random, slow);
    {
      const auto transaction = store_->begin();
      transaction->put(as_bytes(key_of(0)), as_bytes("v"));
      KeyvalCompletion done;
      ASSERT_FALSE(transaction->post_commit(Durability::kProcess, nullptr, done));
      store_->run_until(clock.now() + std::chrono::microseconds(400));
      store_->kill();
    }
    store_.emplace(disk, clock, random, SimKeyvalOptions{});
    there += survivors();
    store_.reset();
  }
  EXPECT_GT(there, 5);
  EXPECT_LT(there, 35);
}

TEST_F(SimKeyvalTest, FullDiskRefusesAndRecovers) {
  open(6);
  ASSERT_EQ(commit(0, Durability::kProcess), Errc::kOk);
  disk_.faults.full = true;
  EXPECT_EQ(commit(1, Durability::kProcess), Errc::kNoSpace);
  EXPECT_EQ(commit(1, Durability::kMachine), Errc::kNoSpace);
  disk_.faults.full = false;
  EXPECT_EQ(survivors(), 1);
  EXPECT_EQ(commit(1, Durability::kProcess), Errc::kOk);
  EXPECT_EQ(survivors(), 2);
}

TEST_F(SimKeyvalTest, AfterAFailedCommitOrSyncAllFailUntilTheStoreIsReopened) {
  open(7);
  ASSERT_EQ(commit(0, Durability::kProcess), Errc::kOk);
  disk_.faults.commit_error_per_mille = 1000;
  EXPECT_EQ(commit(1, Durability::kProcess), Errc::kIoError);
  disk_.faults.commit_error_per_mille = 0;
  EXPECT_EQ(commit(2, Durability::kProcess), Errc::kIoError);
  EXPECT_EQ(survivors(), 1);
  store_->kill();
  open(8);
  EXPECT_GE(survivors(), 1);
  EXPECT_LE(survivors(), 2);
  disk_.faults.sync_error_per_mille = 1000;
  EXPECT_EQ(commit(3, Durability::kMachine), Errc::kIoError);
  disk_.faults.sync_error_per_mille = 0;
  KeyvalCompletion done;
  ASSERT_TRUE(store_->post_sync(nullptr, done));
  EXPECT_EQ(done.status, Errc::kIoError);
}

TEST_F(SimKeyvalTest, AReadErrorYieldsNoData) {
  open(9);
  ASSERT_EQ(commit(0, Durability::kProcess), Errc::kOk);
  disk_.faults.read_error_per_mille = 1000;
  const auto transaction = store_->begin();
  KeyvalCompletion done;
  if (!transaction->post_get(as_bytes(key_of(0)), ReadMode::kChecked, nullptr, done)) done = wait();
  EXPECT_EQ(done.status, Errc::kIoError);
  EXPECT_EQ(done.value, std::nullopt);
}

TEST_F(SimKeyvalTest, SameSeedSameTimes) {
  const auto run = [](std::uint64_t seed) {
    SimKeyvalDisk disk;
    ManualClock clock;
    SeededRandom random(seed);
    SimKeyval store(disk, clock, random);
    std::vector<MonoTime> times;
    for (int i = 0; i < kCommits; ++i) {
      const auto transaction = store.begin();
      transaction->put(as_bytes(key_of(i)), as_bytes("v"));
      KeyvalCompletion done;
      transaction->post_commit(i % 3 == 0 ? Durability::kMachine : Durability::kProcess, nullptr, done);
      while (store.next_event_time() != MonoTime::never()) store.run_until(store.next_event_time());
      times.push_back(clock.now());
    }
    return times;
  };
  EXPECT_EQ(run(10), run(10));
  EXPECT_NE(run(10), run(11));
}

}  // namespace
}  // namespace spate::trove
