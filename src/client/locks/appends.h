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

class Ledger;

/// A right is taken with the first append to a file and kept until another client wants it or the last one here that
/// appends closes the file. One executor; outlived by nothing that appends. Life: construct -> calls -> stop() ->
/// destroyed.
class Appends {
 public:
  /// One file that is appended to; all of this client's opens of it share it.
  struct Appended {
    Appended(Handle its_handle, job::Executor& executor) : handle(its_handle), turn(executor, 1) {}
    const Handle handle;
    job::Semaphore turn;     // one append at a time
    unsigned users = 0;      // opens
    bool recalled = false;   // somebody else waits
    bool unsettled = false;  // a write that failed may still take effect: the right is not passed on
  };
  using AppendedPtr = std::shared_ptr<Appended>;

  /// `ledger`: may be null.
  Appends(job::Executor& executor, Locks& locks, Ledger* ledger);
  job::Task<void> stop();

  AppendedPtr join(Handle handle);
  /// The open is closed; with the last one the right is given back.
  job::Task<void> leave(AppendedPtr file);
  /// Waits for the right. The caller has the turn.
  job::Task<Result<void>> take(AppendedPtr file, job::StopToken stop);
  /// An append has ended: the right goes to who waits for it. The caller has the turn.
  job::Task<void> done(AppendedPtr file);

 private:
  void recall(Handle handle);
  job::Task<void> give_up(Handle handle);
  bool must_keep(Handle handle) const;

  job::Executor& executor_;
  Locks& locks_;
  Ledger* const ledger_;
  job::StopSource stopping_;
  std::map<Handle, AppendedPtr> files_;
  job::Gate gate_;
};

}  // namespace spate::client
