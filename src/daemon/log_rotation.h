// SPDX-License-Identifier: Apache-2.0
// LogRotation: opens the log file again when the process gets SIGHUP.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "base/result.h"

namespace spate::daemon {

/// Handles SIGHUP on a thread of its own, since opening a file takes a lock. Make it before any other thread, so that
/// all threads have the signal blocked. The destructor ends its thread and waits for it.
class LogRotation {
 public:
  LogRotation();
  ~LogRotation();
  LogRotation(const LogRotation&) = delete;
  LogRotation& operator=(const LogRotation&) = delete;

  /// Sets a function that reopens another file at the same signal; null: none. It is called on this object's thread.
  /// on_signal() does not return while the earlier function runs.
  void on_signal(std::function<Result<void>()> reopen);

 private:
  void wait_for_signals();

  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::function<Result<void>()> reopen_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace spate::daemon
