// SPDX-License-Identifier: Apache-2.0
#include "trove/replicated_keyval.h"

#include "base/expect.h"
#include "trove/kvmem/memory_keyval.h"
#include "trove/log_entry.h"

namespace spate::trove {
namespace {

class ReplicatedKeyvalTest : public testing::Test {
 protected:
  ReplicatedKeyvalTest() {
    store_.on_entry([this](LogPosition, std::shared_ptr<const Bytes> entry) { entries_.push_back(std::move(entry)); });
  }
  static Errc commit(Transaction& transaction, Durability durability = Durability::kProcess) {
    KeyvalCompletion done;
    return transaction.post_commit(durability, nullptr, done) ? done.status : Errc::kTryAgain;
  }
  Errc put(const std::string& key, Durability durability = Durability::kProcess) {
    const auto transaction = store_.begin();
    transaction->put(as_bytes(key), as_bytes("v"));
    return commit(*transaction, durability);
  }
  bool has(ByteView key) {
    const auto transaction = store_.begin_unlogged();
    KeyvalCompletion done;
    EXPECT_TRUE(transaction->post_get(key, ReadMode::kSnapshot, nullptr, done));
    return done.value.has_value();
  }

  std::unique_ptr<Keyval> inner_ = make_memory_keyval();
  ReplicatedKeyval store_{*inner_, ReplicatedOptions{4}};
  std::vector<std::shared_ptr<const Bytes>> entries_;
};

TEST_F(ReplicatedKeyvalTest, CommitBeforeItLeadsHasNoEffect) {
  EXPECT_EQ(put("k"), Errc::kCancelled);
  EXPECT_FALSE(has(as_bytes("k")));
}

TEST_F(ReplicatedKeyvalTest, EachCommitIsAnEntryThatHoldsItsWrites) {
  store_.lead(5, {4, 10}, 1);
  ASSERT_EQ(put("a"), Errc::kOk);
  ASSERT_EQ(put("b"), Errc::kOk);
  ASSERT_EQ(entries_.size(), 2U);
  const auto entry = decode_entry(*entries_.back());
  ASSERT_OK(entry);
  EXPECT_EQ(entry->at, (LogPosition{5, 12}));
  ASSERT_EQ(entry->writes.size(), 1U);
  EXPECT_EQ(as_text(entry->writes.front().key), "b");
  EXPECT_TRUE(has(entry_key(12)));
}

TEST_F(ReplicatedKeyvalTest, AConflictAddsNoEntryToTheLog) {
  store_.lead(1, {}, 1);
  const auto late = store_.begin();
  KeyvalCompletion done;
  ASSERT_TRUE(late->post_get(as_bytes("k"), ReadMode::kChecked, nullptr, done));
  ASSERT_EQ(put("k"), Errc::kOk);
  late->put(as_bytes("k"), as_bytes("w"));
  EXPECT_EQ(commit(*late), Errc::kConflict);
  EXPECT_EQ(store_.last().index, 1U);
  EXPECT_FALSE(store_.broken());
}

TEST_F(ReplicatedKeyvalTest, UnloggedWritesAreNoEntries) {
  store_.lead(1, {}, 1);
  const auto transaction = store_.begin_unlogged();
  transaction->put(as_bytes("k"), as_bytes("v"));
  ASSERT_EQ(commit(*transaction), Errc::kOk);
  EXPECT_EQ(store_.last().index, 0U);
}

TEST_F(ReplicatedKeyvalTest, KeepsTheLatestEntriesOnly) {
  store_.lead(1, {}, 1);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(put("k" + std::to_string(i)), Errc::kOk);
  EXPECT_FALSE(has(entry_key(6)));
  EXPECT_TRUE(has(entry_key(7)));
  EXPECT_TRUE(has(entry_key(10)));
}

TEST_F(ReplicatedKeyvalTest, DurableCommitCompletesWhenAllHaveSyncedItsEntry) {
  store_.lead(1, {}, 1);
  ASSERT_EQ(put("a", Durability::kMachine), Errc::kTryAgain);
  EXPECT_EQ(store_.sync_wanted(), 1U);
  std::array<KeyvalCompletion, 1> out;
  EXPECT_EQ(store_.test(out), 0U);
  store_.synced(1);
  ASSERT_EQ(store_.test(out), 1U);
  EXPECT_EQ(out[0].status, Errc::kOk);
}

TEST_F(ReplicatedKeyvalTest, WaitingSyncsFailWhenTheStoreStopsLeading) {
  store_.lead(1, {}, 1);
  ASSERT_EQ(put("a", Durability::kMachine), Errc::kTryAgain);
  store_.stop_leading();
  store_.fail_waiting(Errc::kCancelled);
  std::array<KeyvalCompletion, 1> out;
  ASSERT_EQ(store_.test(out), 1U);
  EXPECT_EQ(out[0].status, Errc::kCancelled);
  EXPECT_EQ(put("b"), Errc::kCancelled);
}

/// A server that takes over alone commits while it starts. Only what its clients ask for has to wait.
TEST_F(ReplicatedKeyvalTest, SaysThatCopiesAreLackingAndCommitsNevertheless) {
  store_.lead(1, {}, 1);
  EXPECT_FALSE(store_.lacks_copies()) << "nobody has said so";
  store_.lacks_copies(true);
  EXPECT_TRUE(store_.lacks_copies()) << "a server would go on making changes";
  EXPECT_EQ(put("a"), Errc::kOk);
}

TEST_F(ReplicatedKeyvalTest, EntryWithAFlippedBitIsRefused) {
  store_.lead(1, {}, 1);
  ASSERT_EQ(put("a"), Errc::kOk);
  for (std::size_t at = 0; at < entries_.front()->size(); ++at) {
    Bytes damaged = *entries_.front();
    damaged[at] ^= std::byte{1};
    EXPECT_ERRC(decode_entry(damaged), Errc::kCorrupt) << at;
  }
}

}  // namespace
}  // namespace spate::trove
