// SPDX-License-Identifier: Apache-2.0
// RocksdbTransaction: reads at one point of the commit order, and writes that wait for their commit.
#pragma once

#include "trove/rocksdb/store.h"
#include "trove/transaction_state.h"

namespace spate::trove {

/// While no other transaction commits, it reads the store's present state, which costs nothing. The store calls pin()
/// just before a commit changes that state. While the writer has commits in flight, there is no state to pin, and the
/// first read takes a snapshot by itself. Only the thread that tests the store uses it. The store outlives it. No read
/// may be in flight when it is destroyed.
class RocksdbTransaction final : public Transaction, public SnapshotReader {
 public:
  explicit RocksdbTransaction(RocksdbStore& store);
  ~RocksdbTransaction() override;

  bool post_get(ByteView key, ReadMode mode, void* user, KeyvalCompletion& done) override;
  bool post_get_many(std::span<const Bytes> keys, ReadMode mode, void* user, KeyvalCompletion& done) override;
  bool post_range(const KeyRange& range, void* user, KeyvalCompletion& done) override;
  void note_read(ByteView key) override { state_.note_key(key, ReadMode::kChecked); }
  void note_range_read(ByteView begin, ByteView end) override { state_.reads.add_range(begin, end); }
  void put(ByteView key, ByteView value) override;
  void erase(ByteView key) override;
  bool post_commit(Durability durability, void* user, KeyvalCompletion& done) override;

  void pin(SnapshotRef snapshot) override { snapshot_ = std::move(snapshot); }
  void finish_read(Read& read, KeyvalCompletion& done) override;

 private:
  void start(void* user, KeyvalCompletion& done) const;
  rocksdb::ReadOptions prepare_read();
  void pin_now();
  bool in_thread(std::unique_ptr<Read> read, void* user);

  RocksdbStore& store_;
  TransactionState state_;
  SnapshotRef snapshot_;  // null: it reads the present state, and the store watches it
};

}  // namespace spate::trove
