// SPDX-License-Identifier: Apache-2.0
// DirectoryLocks: makes the changes of one directory run one after another. Without it they would conflict in the store
// and run again.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "job/semaphore.h"
#include "job/task.h"
#include "model/ids.h"

namespace spate::meta {

/// A key of its own, locked like a directory while a directory changes its parent. It keeps the ancestors in place.
inline constexpr Handle kRenameLock{0};

/// The locks are only for speed. Operations are correct without them, because a transaction checks what it read. One
/// executor; pinned; outlives its sets. An entry exists only while someone holds or awaits it.
class DirectoryLocks {
 public:
  explicit DirectoryLocks(job::Executor& executor) : executor_(executor) {}
  DirectoryLocks(const DirectoryLocks&) = delete;
  DirectoryLocks& operator=(const DirectoryLocks&) = delete;

  std::size_t size() const { return locks_.size(); }

 private:
  friend class LockSet;
  struct Lock {
    explicit Lock(job::Executor& executor) : semaphore(executor, 1) {}
    job::Semaphore semaphore;
    std::size_t users = 0;  // holding or waiting
  };
  Lock& use(Handle handle);
  void drop(Handle handle);

  job::Executor& executor_;
  std::unordered_map<Handle, std::unique_ptr<Lock>> locks_;
};

/// The locks of one operation. A holder never waits for a further lock: it takes the locks that are free, or releases
/// everything and waits for all of them in the order of handles. So no two operations can wait for each other.
///
/// Life cycle: empty -> try_take() or wait_for(), any number of times -> release(), or destroyed. After a failed
/// wait_for() the set is empty. It ends before its table.
class LockSet {
 public:
  explicit LockSet(DirectoryLocks& table) : table_(table) {}
  LockSet(const LockSet&) = delete;
  LockSet& operator=(const LockSet&) = delete;
  ~LockSet() { release(); }

  /// True: the set holds all of `handles` now, besides what it held before. False: nothing has changed.
  bool try_take(std::vector<Handle> handles);
  /// Releases everything, then waits for `handles` (any order, repeats allowed).
  job::Task<Result<void>> wait_for(std::vector<Handle> handles, job::StopToken stop);
  void release();
  std::vector<Handle> handles() const;

 private:
  struct Held {
    Handle handle;
    job::Semaphore::Units units;
  };
  bool holds(Handle handle) const;

  DirectoryLocks& table_;
  std::vector<Held> held_;
};

}  // namespace spate::meta
