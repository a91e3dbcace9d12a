// SPDX-License-Identifier: Apache-2.0
// A device stalls, fails or forgets: nobody else waits, nothing acknowledged is lost, the order is kept.
#include <optional>

#include "trove/rocksdb/test_store.h"

namespace spate::trove {
namespace {

class StallTest : public StoreTest {
 protected:
  /// Posts a commit of one key; the transaction stays alive.
  bool post(const std::string& key, const std::string& value, Durability durability, KeyvalCompletion& done) {
    transactions_.push_back(store_->begin());
    put(*transactions_.back(), key, value);
    return transactions_.back()->post_commit(durability, transactions_.back().get(), done);
  }
  void TearDown() override { transactions_.clear(); }

  /// Commits until one is not taken at once. Returns how many were posted.
  int fill_until_stalled() {
    const std::string big(16 << 10, 'x');
    KeyvalCompletion done;
    for (int i = 0; i < 1000; ++i) {
      if (!post("k" + std::to_string(i), big + std::to_string(i), Durability::kProcess, done)) return i + 1;
      EXPECT_EQ(done.status, Errc::kOk);
      transactions_.pop_back();
    }
    ADD_FAILURE() << "never stalled";
    return 0;
  }

  std::vector<std::unique_ptr<Transaction>> transactions_;
};

TEST_F(StallTest, AStalledSyncDelaysNoOtherOperation) {
  open();
  ASSERT_EQ(commit("before", "1", Durability::kMachine), Errc::kOk);
  disk_.close(TestDisk::kLogSync);
  KeyvalCompletion done;
  ASSERT_FALSE(post("synced", "1", Durability::kMachine, done));
  disk_.wait_for_waiter();
  ASSERT_TRUE(post("process", "1", Durability::kProcess, done));
  EXPECT_EQ(done.status, Errc::kOk);
  EXPECT_EQ(get("process"), "1");
  EXPECT_EQ(get("synced"), "1");  // visible, though not yet durable
  ASSERT_FALSE(post("later", "1", Durability::kMachine, done));
  std::array<KeyvalCompletion, 4> out;
  EXPECT_EQ(store_->test(out), 0U);
  disk_.open(TestDisk::kLogSync);
  EXPECT_EQ(wait().user, transactions_[0].get());
  EXPECT_EQ(wait().user, transactions_[2].get());
}

TEST_F(StallTest, OneSyncServesAllWaiters) {
  open();
  disk_.close(TestDisk::kLogSync);
  KeyvalCompletion done;
  ASSERT_FALSE(post("first", "1", Durability::kMachine, done));
  disk_.wait_for_waiter();
  for (int i = 0; i < 50; ++i) ASSERT_FALSE(post("k" + std::to_string(i), "1", Durability::kMachine, done));
  ASSERT_FALSE(store_->post_sync(nullptr, done));
  disk_.open(TestDisk::kLogSync);
  for (int i = 0; i < 52; ++i) EXPECT_EQ(wait().status, Errc::kOk);
  // Everything is on the device by now.
  EXPECT_TRUE(store_->post_sync(nullptr, done));
}

TEST_F(StallTest, StalledCommitsCompleteLaterAndInOrder) {
  options_.write_buffer_bytes = 64 << 10;
  open();
  ASSERT_EQ(commit("early", "1"), Errc::kOk);
  disk_.close(TestDisk::kTableWrite);
  const int stalled = fill_until_stalled();
  ASSERT_GT(stalled, 3);
  KeyvalCompletion done;
  EXPECT_EQ(get("early"), "1");
  for (int i = 0; i < 20; ++i) ASSERT_FALSE(post("last", std::to_string(i), Durability::kProcess, done));
  ASSERT_FALSE(post("synced", "1", Durability::kMachine, done));
  ASSERT_FALSE(store_->post_sync(nullptr, done));
  // A commit that is decided but not applied: a read sees all of it, or conflicts.
  const auto between = store_->begin();
  ASSERT_TRUE(between->post_get(as_bytes("last"), ReadMode::kChecked, nullptr, done));
  EXPECT_EQ(done.value, std::nullopt);
  ASSERT_TRUE(store_->prepare_to_wait());
  disk_.open(TestDisk::kTableWrite);
  pollfd wanted{store_->wait_descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&wanted, 1, 10'000), 1);
  // The stall has ended, but the store has not seen the queue empty yet. So this commit goes to the end of the queue.
  ASSERT_FALSE(post("last", "20", Durability::kProcess, done));
  const Transaction* synced = transactions_.end()[-2].get();
  std::vector<const void*> expected;
  for (const auto& each : transactions_) {
    if (each.get() != synced) expected.push_back(each.get());
  }
  std::vector<const void*> order;
  for (std::size_t i = 0; i < transactions_.size() + 1; ++i) {  // and the sync
    const KeyvalCompletion next = wait();
    EXPECT_EQ(next.status, Errc::kOk);
    if (next.user != nullptr && next.user != synced) order.push_back(next.user);
  }
  EXPECT_EQ(order, expected);
  EXPECT_EQ(get("last"), "20");
  EXPECT_EQ(get("k" + std::to_string(stalled - 1)).size(), (16U << 10) + std::to_string(stalled - 1).size());
  put(*between, "conflict", "1");
  ASSERT_TRUE(between->post_commit(Durability::kProcess, nullptr, done));
  EXPECT_EQ(done.status, Errc::kConflict);
  transactions_.clear();
  EXPECT_EQ(commit("after", "1"), Errc::kOk);
}

TEST_F(StallTest, AStalledDeviceReadDelaysNoOtherOperation) {
  open();
  {
    const auto db = open_raw();
    // This record has a block of its own. The block with the format record is read when the store is opened.
    ASSERT_EQ(db->Put({}, "about a block", std::string(8192, 'x')).ToString(), "OK");
    ASSERT_EQ(db->Put({}, "cold", "value").ToString(), "OK");
    ASSERT_EQ(db->Put({}, "cold2", "value").ToString(), "OK");
    ASSERT_EQ(db->Flush({}).ToString(), "OK");
  }
  open();
  disk_.close(TestDisk::kTableRead);
  const auto reader = store_->begin();
  KeyvalCompletion done;
  ASSERT_FALSE(reader->post_get(as_bytes("cold"), ReadMode::kChecked, reader.get(), done));
  const auto many = store_->begin();
  const std::vector<Bytes> keys{to_bytes(as_bytes("cold")), to_bytes(as_bytes("cold2"))};
  ASSERT_FALSE(many->post_get_many(keys, ReadMode::kChecked, many.get(), done));
  KeyRange range;
  range.begin = to_bytes(as_bytes("c"));
  range.end = to_bytes(as_bytes("d"));
  range.limit = 10;
  const auto scan = store_->begin();
  ASSERT_FALSE(scan->post_range(range, scan.get(), done));
  ASSERT_TRUE(post("cold", "new", Durability::kProcess, done));
  EXPECT_EQ(get("cold"), "new");
  disk_.open(TestDisk::kTableRead);
  for (int i = 0; i < 3; ++i) {
    const KeyvalCompletion late = wait();
    ASSERT_EQ(late.status, Errc::kOk);
    // Reads see the values from when they began.
    if (late.user == reader.get()) {
      EXPECT_EQ(as_text(*late.value), "value");
    } else {
      ASSERT_EQ(late.entries.size(), 2U);
      EXPECT_EQ(as_text(late.entries[0].value), "value");
    }
  }
  put(*reader, "x", "1");
  ASSERT_TRUE(reader->post_commit(Durability::kProcess, nullptr, done));
  EXPECT_EQ(done.status, Errc::kConflict);
}

TEST_F(StallTest, FailedSyncEndsCommitsUntilReopened) {
  open();
  ASSERT_EQ(commit("before", "1", Durability::kMachine), Errc::kOk);
  disk_.fail_log_syncs(rocksdb::IOStatus::IOError("injected"));
  EXPECT_EQ(commit("failed", "1", Durability::kMachine), Errc::kIoError);
  disk_.fail_log_syncs(rocksdb::IOStatus::OK());
  EXPECT_EQ(commit("later", "1"), Errc::kIoError);
  KeyvalCompletion done;
  ASSERT_TRUE(store_->post_sync(nullptr, done));
  EXPECT_EQ(done.status, Errc::kIoError);
  EXPECT_EQ(get("before"), "1");
  open();
  EXPECT_EQ(get("before"), "1");
  EXPECT_EQ(get("later"), "(none)");
  EXPECT_EQ(commit("again", "1", Durability::kMachine), Errc::kOk);
}

TEST_F(StallTest, FullDeviceRefusesCommitsAndKeepsEarlierOnes) {
  open();
  ASSERT_EQ(commit("before", "1"), Errc::kOk);
  disk_.fail_log_writes(rocksdb::IOStatus::NoSpace("injected"));
  EXPECT_EQ(commit("refused", "1"), Errc::kNoSpace);
  EXPECT_EQ(get("before"), "1");
  EXPECT_EQ(get("refused"), "(none)");
  disk_.fail_log_writes(rocksdb::IOStatus::OK());
  open();
  EXPECT_EQ(get("before"), "1");
  EXPECT_EQ(commit("after", "1"), Errc::kOk);
}

TEST_F(StallTest, FailedLogWriteIsAnErrorAndNothingIsLostBefore) {
  open();
  ASSERT_EQ(commit("before", "1"), Errc::kOk);
  disk_.fail_log_writes(rocksdb::IOStatus::IOError("injected"));
  EXPECT_EQ(commit("refused", "1"), Errc::kIoError);
  disk_.fail_log_writes(rocksdb::IOStatus::OK());
  EXPECT_EQ(get("before"), "1");
  open();
  EXPECT_EQ(get("before"), "1");
  EXPECT_EQ(commit("after", "1"), Errc::kOk);
}

/// RocksDB must not be asked to sync a log that it could not write: some builds of it abort the process.
TEST_F(StallTest, ASyncAfterAFailedLogWriteFails) {
  for (const auto& cause : {rocksdb::IOStatus::IOError("injected"), rocksdb::IOStatus::NoSpace("injected")}) {
    options_.folder = scratch_ + (cause.IsNoSpace() ? "/full" : "/failed");
    open();
    ASSERT_EQ(commit("before", "1"), Errc::kOk);
    disk_.fail_log_writes(cause);
    EXPECT_NE(commit("refused", "1"), Errc::kOk);
    EXPECT_NE(sync(), Errc::kOk) << cause.ToString();
    disk_.fail_log_writes(rocksdb::IOStatus::OK());
    open();
    EXPECT_EQ(get("before"), "1");
    EXPECT_EQ(commit("after", "1", Durability::kMachine), Errc::kOk);
  }
}

TEST_F(StallTest, CrashedMachineKeepsWhatWasSynced) {
  open();
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(commit("k" + std::to_string(i), "v", i == 20 ? Durability::kMachine : Durability::kProcess), Errc::kOk);
  }
  store_.reset();
  disk_.lose_unsynced_logs(options_.folder);
  open();
  for (int i = 0; i <= 20; ++i) EXPECT_EQ(get("k" + std::to_string(i)), "v") << i;
  EXPECT_EQ(get("k29"), "(none)");
}

/// Power fails after the successor of a killed process has reported that everything is durable.
TEST_F(StallTest, SyncCoversWhatAnEarlierProcessLeftInItsLog) {
  for (const bool room : {true, false}) {
    options_.folder = scratch_ + (room ? "/roomy" : "/tight");
    options_.short_of_space = !room;
    open();
    ASSERT_EQ(commit("before", "1"), Errc::kOk);
    open();
    KeyvalCompletion done;
    if (!store_->post_sync(nullptr, done)) done = wait();
    ASSERT_EQ(done.status, Errc::kOk);
    store_.reset();
    disk_.lose_unsynced_logs(options_.folder);
    open();
    EXPECT_EQ(get("before"), "1") << (room ? "with" : "without") << " room for a table";
  }
}

TEST_F(StallTest, ADurableCommitMakesThoseOfAnEarlierProcessDurable) {
  for (const bool room : {true, false}) {
    options_.folder = scratch_ + (room ? "/roomy" : "/tight");
    options_.short_of_space = !room;
    open();
    ASSERT_EQ(commit("before", "1"), Errc::kOk);
    open();
    ASSERT_EQ(commit("after", "1", Durability::kMachine), Errc::kOk);
    store_.reset();
    disk_.lose_unsynced_logs(options_.folder);
    open();
    EXPECT_EQ(get("before"), "1") << (room ? "with" : "without") << " room for a table";
    EXPECT_EQ(get("after"), "1") << (room ? "with" : "without") << " room for a table";
  }
}

/// The kernel has dropped the pages that it could not write, so a later sync of the same log proves nothing about them.
TEST_F(StallTest, ReopeningMakesDurableWhatASyncCouldNotWrite) {
  open();
  disk_.fail_log_syncs(rocksdb::IOStatus::IOError("injected"));
  EXPECT_EQ(commit("failed", "1", Durability::kMachine), Errc::kIoError);
  store_.reset();
  disk_.fail_log_syncs(rocksdb::IOStatus::OK());
  open();
  const std::string found = get("failed");
  KeyvalCompletion done;
  if (!store_->post_sync(nullptr, done)) done = wait();
  ASSERT_EQ(done.status, Errc::kOk);
  store_.reset();
  disk_.lose_unsynced_logs(options_.folder);
  open();
  EXPECT_EQ(get("failed"), found);
}

TEST_F(StallTest, AStoreWhoseOldLogCannotBeSyncedIsNotOpened) {
  options_.short_of_space = true;
  open();
  ASSERT_EQ(commit("before", "1"), Errc::kOk);
  store_.reset();
  disk_.fail_log_syncs(rocksdb::IOStatus::IOError("injected"));
  EXPECT_ERRC(open_error(), Errc::kIoError);
  disk_.fail_log_syncs(rocksdb::IOStatus::OK());
  open();
  EXPECT_EQ(get("before"), "1");
}

TEST_F(StallTest, SyncCoversCommitsBeforeIt) {
  open();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(commit("k" + std::to_string(i), "v"), Errc::kOk);
  KeyvalCompletion done;
  if (!store_->post_sync(nullptr, done)) done = wait();
  ASSERT_EQ(done.status, Errc::kOk);
  store_.reset();
  disk_.lose_unsynced_logs(options_.folder);
  open();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(get("k" + std::to_string(i)), "v") << i;
}

}  // namespace
}  // namespace spate::trove
