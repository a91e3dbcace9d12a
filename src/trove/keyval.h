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

/// The result of a posted read, commit or sync.
struct KeyvalCompletion {
  void* user = nullptr;
  Errc status = Errc::kOk;
  std::optional<Bytes> value;     // get: empty when there is none
  std::vector<KeyValue> entries;  // range, in key order
  bool more = false;              // range: entries beyond `limit` may exist (the commit checks only those returned)
};

/// Whether a read joins the set that commit checks.
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

/// An optimistic transaction. Reads see the store as it was at begin(), plus the transaction's own writes. A commit
/// applies all writes at once, or none. Not thread-safe: the store's thread uses it. Life cycle: Keyval::begin() ->
/// reads and writes -> post_commit() once, or none -> destroyed. Destroying it without a commit drops its writes. No
/// post may be in flight then.
class Transaction {
 public:
  virtual ~Transaction() = default;

  /// True: done at once, `done` is filled. False: a completion with `user` comes from Keyval::test().
  virtual bool post_get(ByteView key, ReadMode mode, void* user, KeyvalCompletion& done) = 0;
  /// Several keys in one operation; completion.entries holds those that exist, in the order of `keys`.
  virtual bool post_get_many(std::span<const Bytes> keys, ReadMode mode, void* user, KeyvalCompletion& done) = 0;
  virtual bool post_range(const KeyRange& range, void* user, KeyvalCompletion& done) = 0;
  /// Treats the key as read with kChecked, for callers that know the store's value without reading it. The commit fails
  /// with kConflict if another transaction has changed the key since this one began.
  virtual void note_read(ByteView key) = 0;
  /// Like note_read(), for all keys in [begin, end).
  virtual void note_range_read(ByteView begin, ByteView end) = 0;
  virtual void put(ByteView key, ByteView value) = 0;
  virtual void erase(ByteView key) = 0;
  /// kConflict: nothing was written; run the operation again on a new transaction. kNoSpace, kIoError: nothing was
  /// acknowledged, but the writes may appear after a restart. The transaction cannot be used again in any case.
  virtual bool post_commit(Durability durability, void* user, KeyvalCompletion& done) = 0;
};

class WriteSet;

/// Observes each commit at the moment when it is decided, in the order of the decisions, on the store's thread.
class CommitObserver {
 public:
  virtual ~CommitObserver() = default;
  /// May add writes, which are applied together with the transaction's own.
  virtual void decided(WriteSet& writes) = 0;
};

/// One store. A stall inside (compaction, sync, cold read) never blocks the caller: the operation moves to the store's
/// own threads and completes later.
///
/// Life cycle: opened by its module -> transactions begin, and operations are posted and tested -> all transactions are
/// destroyed -> destroyed. Each post gives exactly one completion: in `done` if it returns true, otherwise from a later
/// test(). Only syncs may be in flight at the destructor. It waits for them and drops their completions.
///
/// Threads: one, the executor's, begins, posts and tests. Only short_of_space() may be called by any thread.
///
/// Failure: an operation reports its own failure. After a failed commit or sync with kIoError, later commits and syncs
/// may fail until the store is opened again, because the kernel may have dropped data that it could not write.
class Keyval {
 public:
  virtual ~Keyval() = default;
  virtual std::unique_ptr<Transaction> begin() = 0;
  /// When it completes, everything that was committed before survives a crash of the machine.
  virtual bool post_sync(void* user, KeyvalCompletion& done) = 0;
  /// Moves up to out.size() completions into `out` and returns how many. Never waits.
  virtual std::size_t test(std::span<KeyvalCompletion> out) = 0;
  /// Readable when test() may find something; -1: there is never anything to wait for, or in virtual time.
  virtual int wait_descriptor() const = 0;
  /// Call it before waiting for wait_descriptor(). False: test() may find something already, so do not wait.
  virtual bool prepare_to_wait() = 0;
  virtual std::string describe() const = 0;
  /// Sets the only observer; null: none. The observer outlives the store, or is replaced before it ends. Commits
  /// without writes are not reported.
  virtual void observe_commits(CommitObserver* observer) = 0;
  /// Whether the device has so little space left that only operations that free space should run. Cheap; any thread.
  virtual bool short_of_space() const { return false; }
  /// Whether too few other stores hold what is committed here, so that a server should make no changes for its clients.
  /// Commits succeed nevertheless: a server must be able to start, and to serve reads. Executor thread.
  virtual bool lacks_copies() const { return false; }
  /// Call it when the store is idle: it gives back memory that it holds only for speed.
  virtual void trim_memory() {}
};

}  // namespace spate::trove
