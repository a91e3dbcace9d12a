// SPDX-License-Identifier: Apache-2.0
// LogRotation: opens the log file again when the process gets SIGHUP.
#pragma once

#include <atomic>
#include <thread>

namespace spate::daemon {

/// Handles SIGHUP on a thread of its own, since opening a file takes a lock. Make it before any other thread, so that
/// all threads have the signal blocked. The destructor ends its thread and waits for it.
class LogRotation {
 public:
  LogRotation();
  ~LogRotation();
  LogRotation(const LogRotation&) = delete;
  LogRotation& operator=(const LogRotation&) = delete;

 private:
  void wait_for_signals();

  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace spate::daemon
