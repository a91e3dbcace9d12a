// SPDX-License-Identifier: Apache-2.0
// Syncer: group commit. One sync of the log serves all callers that waited when it began.
#pragma once

#include <rocksdb/db.h>

#include <mutex>
#include <vector>

#include "base/workers.h"
#include "trove/rocksdb/events.h"
#include "trove/rocksdb/reserve.h"

namespace spate::trove {

/// Thread-safe. The first add() starts its thread. The destructor serves all waiting callers first.
class Syncer {
 public:
  /// Refills `reserve` when it was used up and there is room again.
  Syncer(rocksdb::DB& db, EventQueue& events, SpaceReserve reserve)
      : db_(db), events_(events), reserve_(std::move(reserve)) {}
  Syncer(const Syncer&) = delete;
  Syncer& operator=(const Syncer&) = delete;

  /// `user` gets a completion once everything written to the log so far is on the device; `version` is the latest
  /// commit among that. After a sync has failed every further one fails: the kernel may have dropped the pages that it
  /// could not write, so a later success would say nothing about them.
  void add(void* user, Version version);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  /// Tells whether the last write to the log succeeded. After a failed write, syncs fail until another write succeeds:
  /// RocksDB must not be asked to sync such a log (a build of it with assertions ends the process).
  void note_write(bool good) { writable_.store(good, std::memory_order_relaxed); }

 private:
  struct Waiter {
    void* user;
    Version version;
  };

  void serve();
  Errc sync();

  rocksdb::DB& db_;
  EventQueue& events_;
  SpaceReserve reserve_;  // used by the syncer's thread only
  std::atomic<bool> failed_{false};
  std::atomic<bool> writable_{true};
  std::mutex mutex_;
  std::vector<Waiter> waiting_;  // guarded by mutex_
  bool serving_ = false;         // guarded by mutex_
  Workers thread_{"kv-sync", 1};
};

}  // namespace spate::trove
