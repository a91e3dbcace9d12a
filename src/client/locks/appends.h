// SPDX-License-Identifier: Apache-2.0
// Appends: this client's rights to append to files (docs/consistency.md, "Append").
#pragma once

#include <map>
#include <memory>

#include "client/locks/locks.h"
#include "job/gate.h"
#include "job/semaphore.h"
#include "job/stop.h"

namespace spate::client {

class HandoverState;

/// The first append to a file takes the right to append. The client keeps the right until another client wants it, or
/// until its last open that appends is closed. One executor. This object outlives everything that appends. Life cycle:
/// construct -> calls -> stop() -> destroyed.
class Appends {
 public:
  /// One file with appends, shared by all of this client's opens of the file.
  struct Appended {
    Appended(Handle its_handle, job::Executor& executor) : handle(its_handle), turn(executor, 1) {}
    const Handle handle;
    job::Semaphore turn;     // one append at a time
    unsigned users = 0;      // number of opens
    bool recalled = false;   // another client waits for the right
    bool unsettled = false;  // a write that failed may still take effect, so the right is not passed on
  };
  using AppendedPtr = std::shared_ptr<Appended>;

  /// `handover`: may be null.
  Appends(job::Executor& executor, Locks& locks, HandoverState* handover);
  job::Task<void> stop();

  AppendedPtr join(Handle handle);
  /// Call it when an open is closed. The last one gives the right back.
  job::Task<void> leave(AppendedPtr file);
  /// Waits for the right. The caller has the turn.
  job::Task<Result<void>> take(AppendedPtr file, job::StopToken stop);
  /// Call it when an append has ended. Another client that waits for the right gets it. The caller has the turn.
  job::Task<void> done(AppendedPtr file);

 private:
  void recall(Handle handle);
  job::Task<void> give_up(Handle handle);
  bool must_keep(Handle handle) const;

  job::Executor& executor_;
  Locks& locks_;
  HandoverState* const handover_;
  job::StopSource stopping_;
  std::map<Handle, AppendedPtr> files_;
  job::Gate gate_;
};

}  // namespace spate::client
