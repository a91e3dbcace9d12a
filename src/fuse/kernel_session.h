// SPDX-License-Identifier: Apache-2.0
// KernelSession: the threads that read the kernel's requests, and how they end.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "fuse/device.h"
#include "fuse/mount.h"
#include "fuse/worker_pool.h"

namespace spate::fuse {

/// Life cycle: construct -> run() -> destroyed. The destructor waits for handlers that are at work, but not for ever:
/// nobody waits for their answers any more, so the process exits if one of them waits for a dead server. One thread
/// drives this object; its workers run the handlers.
class KernelSession {
 public:
  /// `mount` outlives this object.
  KernelSession(Mount& mount, SessionPtr session);
  ~KernelSession();
  KernelSession(const KernelSession&) = delete;
  KernelSession& operator=(const KernelSession&) = delete;

  enum class End {
    kUnmounted,   // by another process
    kStopped,     // by the supervisor, after it has unmounted
    kHandedOver,  // nothing is read or answered any more; the process must exit at once, without ending its session
  };
  /// Serves until one of these ends. `signals`: a signalfd. `control`: the socket to the supervisor, which carries out
  /// the demand of a signal.
  Result<End> run(int signals, int control);

 private:
  job::Task<void> let_executor_call(bool on);
  bool start_worker(bool reads);
  void work(bool reads);
  WorkerPool::Next handle(fuse_buf& buffer);
  bool wait_for_workers();
  bool hand_over();
  Result<void> resume();
  std::optional<End> on_message(int control);
  void on_signal(int signals, int control);
  std::string status() const;
  std::string gathered_text() const;
  std::string queued_text() const;

  Mount& mount_;
  SessionPtr session_;
  std::atomic<std::uint64_t> requests_ = 0;  // the kernel's requests that this process has read
  UniqueFd ended_;                           // eventfd: a worker has seen that the connection has ended
  std::atomic<bool> draining_{false};
  Duration grace_;      // at the end, for what is not sent
  WorkerPool workers_;  // its workers are detached threads, which use nothing of it once they have left it
  bool alone_ = false;  // the supervisor has gone
};

}  // namespace spate::fuse
