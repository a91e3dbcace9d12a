// SPDX-License-Identifier: Apache-2.0
// The record cache always agrees with the store, whichever way the store was changed.
#include <fmt/core.h>

#include <map>

#include "base/random.h"
#include "trove/key_order.h"
#include "trove/rocksdb/test_store.h"

namespace spate::trove {
namespace {

class RecordsTest : public StoreTest {
 protected:
  static std::string read(Transaction& t, const std::string& key) {
    KeyvalCompletion done;
    EXPECT_TRUE(t.post_get(as_bytes(key), ReadMode::kChecked, nullptr, done));
    return done.value ? std::string(as_text(*done.value)) : "(none)";
  }
  Errc erase(const std::string& key) {
    const auto t = store_->begin();
    t->erase(as_bytes(key));
    KeyvalCompletion done;
    return t->post_commit(Durability::kProcess, nullptr, done) ? done.status : wait().status;
  }
};

TEST_F(RecordsTest, ACachedRecordIsReadAsItWasWhenTheTransactionBegan) {
  open();
  ASSERT_EQ(commit("k", "old"), Errc::kOk);
  ASSERT_EQ(get("k"), "old");  // known from here on
  const auto early = store_->begin();
  ASSERT_EQ(commit("k", "new"), Errc::kOk);
  EXPECT_EQ(read(*early, "k"), "old");
  EXPECT_EQ(get("k"), "new");
  KeyvalCompletion done;
  put(*early, "other", "1");
  ASSERT_TRUE(early->post_commit(Durability::kProcess, nullptr, done));
  EXPECT_EQ(done.status, Errc::kConflict);
}

TEST_F(RecordsTest, AnErasedRecordLeavesTheCache) {
  open();
  ASSERT_EQ(commit("k", "old"), Errc::kOk);
  ASSERT_EQ(get("k"), "old");
  ASSERT_EQ(erase("k"), Errc::kOk);
  EXPECT_EQ(get("k"), "(none)");
}

TEST_F(RecordsTest, ARefusedCommitDoesNotChangeTheCache) {
  open();
  ASSERT_EQ(commit("k", "old"), Errc::kOk);
  ASSERT_EQ(get("k"), "old");
  disk_.fail_log_writes(rocksdb::IOStatus::NoSpace("injected"));
  EXPECT_EQ(commit("k", "new"), Errc::kNoSpace);
  EXPECT_EQ(get("k"), "old");
}

TEST_F(RecordsTest, RandomReadsAndWritesAgreeWithAStoreWithoutACache) {
  options_.record_cache_bytes = 4096;  // some twenty of the two hundred: each kind of access is frequent
  open();
  SeededRandom random(11);
  std::map<std::string, std::string> model;
  for (int i = 0; i < 4000; ++i) {
    const std::string key = "k" + std::to_string(random.below(random.below(2) == 0 ? 8 : 200));
    const auto kind = random.below(8);
    if (kind == 0) {
      ASSERT_EQ(erase(key), Errc::kOk);
      model.erase(key);
    } else if (kind < 3) {
      model[key] = std::string(1 + random.below(60), static_cast<char>('a' + random.below(26)));
      ASSERT_EQ(commit(key, model[key]), Errc::kOk);
    } else {
      ASSERT_EQ(get(key), model.contains(key) ? model[key] : "(none)") << key << " at " << i;
    }
  }
}

TEST_F(RecordsTest, ManyKeysReadByTwoThreadsComeInTheOrderAsked) {
  options_.inline_reads = false;
  open();
  std::vector<Bytes> keys;
  SeededRandom random(3);
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "k" + std::to_string(random.below(1'000'000));
    keys.push_back(to_bytes(as_bytes(key)));
    if (i % 3 != 0) ASSERT_EQ(commit(key, "v" + key), Errc::kOk);
  }
  const auto t = store_->begin();
  KeyvalCompletion done;
  ASSERT_FALSE(t->post_get_many(keys, ReadMode::kSnapshot, nullptr, done));
  done = wait();
  ASSERT_EQ(done.status, Errc::kOk);
  std::size_t at = 0;
  for (const KeyValue& entry : done.entries) {
    while (at < keys.size() && !same_key(keys[at], entry.key)) ++at;
    ASSERT_LT(at++, keys.size()) << "not in the order asked";
    EXPECT_EQ(as_text(entry.value), "v" + std::string(as_text(entry.key)));
  }
  EXPECT_GE(done.entries.size(), 660U);
}

TEST_F(RecordsTest, AReadOfManyKeysHandlesNeighbouringScatteredAndAbsentKeys) {
  options_.inline_reads = false;
  open();
  const auto key_of = [](int n) { return to_bytes(as_bytes(fmt::format("k{:07}", n))); };
  for (int n = 0; n < 12'000; ++n) {
    if (n % 5 != 0) ASSERT_EQ(commit(std::string(as_text(key_of(n))), std::to_string(n)), Errc::kOk);
  }
  std::vector<Bytes> keys;
  std::size_t there = 0;
  // Keys too far apart to step between, then close together, then both again, and keys beyond the last record.
  for (int n = 1; n < 13'000; n += (n / 2000 % 2 == 0 ? 25 : 2)) {
    keys.push_back(key_of(n));
    there += n < 12'000 && n % 5 != 0 ? 1U : 0U;
  }
  const auto t = store_->begin();
  KeyvalCompletion done;
  ASSERT_FALSE(t->post_get_many(keys, ReadMode::kSnapshot, nullptr, done));
  done = wait();
  ASSERT_EQ(done.status, Errc::kOk);
  ASSERT_EQ(done.entries.size(), there);
  for (const KeyValue& entry : done.entries) {
    EXPECT_EQ(std::stoi(std::string(as_text(entry.key)).substr(1)), std::stoi(std::string(as_text(entry.value))));
  }
}

}  // namespace
}  // namespace spate::trove
