// SPDX-License-Identifier: Apache-2.0
// RocksdbStore: Keyval over RocksDB, without its transactions. Its commit order, its threads, its completions.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <memory>
#include <vector>

#include "base/workers.h"
#include "trove/keyval.h"
#include "trove/record_cache.h"
#include "trove/resolver.h"
#include "trove/rocksdb/events.h"
#include "trove/rocksdb/rocksdb_keyval.h"
#include "trove/rocksdb/snapshot_reader.h"
#include "trove/rocksdb/syncer.h"

namespace spate::trove {

/// One thread posts and tests. Three kinds of threads work for it, each started when first needed: readers (any order),
/// one writer (commits that RocksDB would have stalled, in commit order), one syncer. The destructor waits for all of
/// them; no transaction may live then.
///
/// Order: the posting thread decides a commit, and also writes it unless an earlier one still waits for the writer. So
/// the log has the order of the decisions.
///
/// A derived class (open.cc) has begin(): the store itself knows its transactions as SnapshotReaders only.
class RocksdbStore : public Keyval {
 public:
  RocksdbStore(std::unique_ptr<rocksdb::DB> db, const RocksdbOptions& options, SpaceReserve reserve);
  ~RocksdbStore() override;

  bool post_sync(void* user, KeyvalCompletion& done) override;
  std::size_t test(std::span<KeyvalCompletion> out) override;
  int wait_descriptor() const override { return events_.descriptor(); }
  bool prepare_to_wait() override { return events_.prepare_to_wait(); }
  std::string describe() const override { return "rocksdb"; }
  void observe_commits(CommitObserver* observer) override { resolver_.observe_commits(observer); }
  bool short_of_space() const override { return SpaceReserve::short_of_space(folder_); }
  void trim_memory() override;

  // For its transactions.
  Resolver& resolver() { return resolver_; }
  rocksdb::DB& db() { return *db_; }
  /// Serves reads of the present state, while everything that is decided is also applied.
  RecordCache& records() { return records_; }
  bool inline_reads() const { return inline_reads_; }
  SnapshotRef snapshot();
  /// Tells the reader to take a snapshot before the next commit changes what it reads, until forget() is called.
  void watch(SnapshotReader& reader);
  void forget(SnapshotReader& reader);
  /// Runs the rest of `read` in a thread; the reader gets the result through test().
  void read_in_thread(SnapshotReader& reader, SnapshotRef snapshot, std::unique_ptr<Read> read, void* user);
  /// Writes a commit whose reads were good. As Transaction::post_commit.
  bool commit(const WriteSet& writes, Durability durability, void* user, KeyvalCompletion& done);

 private:
  /// A read in threads; the one that does its last part reports it.
  struct ThreadedRead {
    Event event;
    SnapshotRef snapshot;
    unsigned parts = 1;
    std::atomic<unsigned> left = 1;
    std::atomic<Errc> status = Errc::kOk;  // the last failure
  };

  void pin_watched();
  void run_part(ThreadedRead& read, unsigned part);
  void fill_batch(const WriteSet& writes);
  void forget_records(const WriteSet& writes);
  void note_records(const WriteSet& writes);
  void commit_in_thread(Version version, Durability durability, void* user);
  bool complete(Event& event, KeyvalCompletion& out);

  const std::string folder_;
  std::unique_ptr<rocksdb::DB> db_;
  const unsigned read_threads_;
  const bool inline_reads_;
  const bool inline_commits_;
  Resolver resolver_;
  RecordCache records_;
  std::vector<SnapshotReader*> watched_;
  rocksdb::WriteBatch batch_;  // reused from commit to commit
  Version synced_ = 0;
  EventQueue events_;
  // Members are destroyed in reverse order: the writer, which passes work to the syncer, ends before it.
  Syncer syncer_;
  Workers writer_{"kv-write", 1};
  Workers readers_{"kv-read", read_threads_};
};

}  // namespace spate::trove
