// SPDX-License-Identifier: Apache-2.0
// KernelLocks: the locks of programs that use the mount. Records which owners have locks, and which wait for one.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "assembly/client_process.h"
#include "client/session/handover_state.h"

namespace spate::fuse {

/// Thread-safe. A waiting request occupies none of the mount's worker threads, because any number may wait, and the
/// request that releases the lock must find a worker. While there are waits, one thread of this object drives all of
/// them. Life cycle: construct -> other calls -> stop() or hand_over(), which wait for that thread -> destroyed. The
/// process and the handover state outlive this object.
class KernelLocks {
 public:
  /// Begins with the locks from earlier processes of the mount.
  KernelLocks(assembly::ClientProcess& process, client::HandoverState& handover);
  ~KernelLocks() { SPATE_CHECK(stop()); }
  KernelLocks(const KernelLocks&) = delete;
  KernelLocks& operator=(const KernelLocks&) = delete;

  /// From now on the file's close must release the locks of this holder. `open`: the number of the open file
  /// (OpenFiles).
  void note(std::uint64_t open, Handle handle, client::LockHolder holder);
  /// Whether this holder may have locks on the file. Forgets the holder.
  bool take(Handle handle, client::LockHolder holder);
  /// All holders whose locks were taken through this open file. Forgets them.
  std::vector<client::LockHolder> take_all(std::uint64_t open, Handle handle);

  /// Answers the request when the lock is granted or refused, or with EINTR when its caller is interrupted.
  void wait(fuse_req_t request, const wire::LockSpec& lock);
  /// Ends all waits within seconds. Later waits end at once. Call it before the session with the kernel ends. False:
  /// some wait for a server that does not answer, so the process must end without destroying this object.
  bool stop();
  /// As stop(), but without answers: the kernel repeats the requests to the next process.
  bool hand_over();
  /// Sets a function that is called with the file of each granted lock, before the program learns of the grant.
  void on_grant(std::function<void(Handle)> action) { on_grant_ = std::move(action); }

 private:
  struct Wait;
  struct Answer {
    fuse_req_t request;
    Handle handle;
    int error = 0;
  };
  static void on_interrupt(fuse_req_t request, void* wait);
  job::Task<void> run(std::shared_ptr<Wait> wait);
  job::Task<void> until_answers();
  job::Task<void> stop_waits();
  bool has_answers();
  void give_answers();
  void drive();

  assembly::ClientProcess& process_;
  client::HandoverState& handover_;
  job::Gate gate_;                         // the executor's
  job::Event one_ended_;                   // the executor's
  std::set<std::shared_ptr<Wait>> waits_;  // the executor's
  std::atomic<std::size_t> outstanding_{0};
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<Answer> answers_;  // guarded by mutex_
  bool stopping_ = false;        // guarded by mutex_
  std::atomic<bool> silent_{false};
  std::set<std::pair<Handle, client::LockHolder>> holders_;  // guarded by mutex_
  std::map<std::pair<std::uint64_t, client::LockHolder>, client::HandoverState::LockUse*>
      of_opens_;                          // guarded by mutex_
  std::function<void(Handle)> on_grant_;  // set before the first request
  std::thread driver_;                    // started by the first wait
};

}  // namespace spate::fuse
