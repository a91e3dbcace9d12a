// SPDX-License-Identifier: Apache-2.0
// LogRotation: opens the log file anew when SIGHUP comes.
#pragma once

#include <atomic>
#include <thread>

namespace spate::daemon {

/// Takes SIGHUP on a thread of its own, because opening a file takes a lock. Made before any other thread, so that all
/// of them have the signal blocked.
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
