// SPDX-License-Identifier: Apache-2.0
// One read of the store. It is tried inline with the data in memory, and can continue in a thread from where it
// stopped.
#pragma once

#include <rocksdb/db.h>

#include <optional>
#include <vector>

#include "trove/keyval.h"
#include "trove/transaction_state.h"

namespace spate::trove {

/// The key of the store's own record; never seen by readers (docs/disk-keyval.md, "Format record").
inline constexpr char kFormatKey[] = {'\0', 'f', 'o', 'r', 'm', 'a', 't'};
bool is_reserved(ByteView key);

/// Reads a key's value into `value`. An absent key is kOk without a value. kTryAgain: the value is not in memory.
Errc read_one(rocksdb::DB& db, const rocksdb::ReadOptions& options, ByteView key, std::optional<Bytes>& value);

/// A read that may need several steps. A step changes only the read itself, so any one thread may run it.
class Read {
 public:
  virtual ~Read() = default;
  /// Continues with at most `budget` more keys or entries. kOk: finished. kTryAgain: the budget is spent, or `options`
  /// do not allow the device. Any other code: failed.
  virtual Errc step(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::size_t budget) = 0;
  /// How many parts the rest can be cut into, so that as many threads can execute them at once.
  virtual unsigned parts() const { return 1; }
  /// Executes part number `part` of `parts` (1..parts()) to its end. Different parts may run in different threads.
  /// Returns as step().
  virtual Errc step_part(rocksdb::DB& db, const rocksdb::ReadOptions& options, unsigned /*part*/, unsigned /*parts*/) {
    return step(db, options, SIZE_MAX);
  }
  /// Called on the transaction's own thread, after step() or each step_part() has returned kOk.
  virtual void finish(TransactionState& state, KeyvalCompletion& done) = 0;
};

class GetRead final : public Read {
 public:
  explicit GetRead(ByteView key) : key_(to_bytes(key)) {}
  Errc step(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::size_t budget) override;
  void finish(TransactionState& state, KeyvalCompletion& done) override;

 private:
  Bytes key_;
  std::optional<Bytes> value_;
};

class ManyRead final : public Read {
 public:
  /// Answers keys that the transaction has written itself at once. Borrows `keys` until own_keys() is called.
  ManyRead(std::span<const Bytes> keys, const TransactionState& state);
  /// Copies the keys that are not read and reported yet, since the read is about to outlive the post.
  void own_keys();
  Errc step(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::size_t budget) override;
  unsigned parts() const override;
  Errc step_part(rocksdb::DB& db, const rocksdb::ReadOptions& options, unsigned part, unsigned parts) override;
  void finish(TransactionState& state, KeyvalCompletion& done) override;

 private:
  using Indices = std::span<const std::size_t>;

  void sort_open();
  /// Steps through the first keys of `which`, which are sorted, as long as few steps lead from one key to the next.
  /// Returns how many it answered.
  std::size_t step_neighbours(rocksdb::Iterator* it, Indices which);
  Errc step_chunk(rocksdb::DB& db, const rocksdb::ReadOptions& options, Indices which);

  std::span<const Bytes> keys_;
  std::vector<Bytes> owned_keys_;
  std::vector<std::optional<Bytes>> values_;
  std::vector<std::size_t> open_;  // indices of keys that are not answered yet
};

class RangeRead final : public Read {
 public:
  /// `wanted` (>= 1): how many of the store's entries to read. Keeps a copy of the transaction's writes in the range.
  RangeRead(const KeyRange& range, std::size_t wanted, const TransactionState& state);
  Errc step(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::size_t budget) override;
  void finish(TransactionState& state, KeyvalCompletion& done) override;

 private:
  KeyRange range_;
  std::size_t wanted_;
  StoreEntries found_;
  OwnedWrites own_;
};

}  // namespace spate::trove
