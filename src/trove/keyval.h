// SPDX-License-Identifier: Apache-2.0
// Keyval: an ordered key/value store with transactions. Post and test, like bmi. Record formats: docs/disk.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace spate::trove {

struct KeyValue {
  Bytes key;
  Bytes value;
};

/// When a commit's completion may be reported.
enum class Durability : std::uint8_t {
  kProcess,  // survives a killed process (in the operating system's cache)
  kMachine,  // survives a crashed machine (synced)
};

/// What a posted read or commit yields.
struct KeyvalCompletion {
  void* user = nullptr;
  Errc status = Errc::kOk;
  std::optional<Bytes> value;     // get: empty when there is none
  std::vector<KeyValue> entries;  // range, in key order
  bool more = false;              // range: `limit` ended it (commit does not check this, only the entries)
};

/// What a read adds to the set that commit checks.
enum class ReadMode : std::uint8_t {
  kChecked,   // commit fails if another transaction changed what was read (key or range, also by inserting into it)
  kSnapshot,  // not checked: listings, statistics
};

/// A range [begin, end) of keys, ascending; at most `limit` entries (>= 1).
struct KeyRange {
  Bytes begin;
  Bytes end;
  std::size_t limit = 1;
  ReadMode mode = ReadMode::kChecked;
};

/// Optimistic: reads see the store as it was at begin() plus this transaction's own writes; commit applies all writes
/// at once or none. Used by one thread. Destroying an uncommitted one drops it; destroy only when no post is in flight.
class Transaction {
 public:
  virtual ~Transaction() = default;

  /// True: done at once, `done` is filled. False: a completion with `user` comes from Keyval::test().
  virtual bool post_get(ByteView key, ReadMode mode, void* user, KeyvalCompletion& done) = 0;
  /// Several keys in one operation; completion.entries holds those that exist, in the order of `keys`.
  virtual bool post_get_many(std::span<const Bytes> keys, ReadMode mode, void* user, KeyvalCompletion& done) = 0;
  virtual bool post_range(const KeyRange& range, void* user, KeyvalCompletion& done) = 0;
  /// The key counts as read with kChecked: for who knows by itself what the store holds. kConflict at the commit if
  /// another transaction has changed the key since this one began.
  virtual void note_read(ByteView key) = 0;
  /// The same of all keys in [begin, end).
  virtual void note_range_read(ByteView begin, ByteView end) = 0;
  virtual void put(ByteView key, ByteView value) = 0;
  virtual void erase(ByteView key) = 0;
  /// kConflict: nothing was written; run the operation again on a new transaction. kNoSpace, kIoError: nothing was
  /// acknowledged (it may be found after a restart). The transaction is used up in any case.
  virtual bool post_commit(Durability durability, void* user, KeyvalCompletion& done) = 0;
};

/// One store. begin, post and test from one thread (its executor's). A stall inside (compaction, sync, cold read) never
/// blocks the caller: such an operation moves to the store's own threads and completes later.
class Keyval {
 public:
  virtual ~Keyval() = default;
  virtual std::unique_ptr<Transaction> begin() = 0;
  /// Everything committed before is durable against a machine crash when it completes.
  virtual bool post_sync(void* user, KeyvalCompletion& done) = 0;
  virtual std::size_t test(std::span<KeyvalCompletion> out) = 0;
  virtual int wait_descriptor() const = 0;
  virtual bool prepare_to_wait() = 0;
  virtual std::string describe() const = 0;
  /// The device has so little room left that it is to be kept for what makes room. Cheap; any thread.
  virtual bool short_of_space() const { return false; }
  /// For now nothing is asked of it: it gives back memory that it holds only to be fast.
  virtual void rest() {}
};

}  // namespace spate::trove
