// SPDX-License-Identifier: Apache-2.0
// BlockRole: the role block of a server, a process of its own that ends with this one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "assembly/server_process.h"

namespace spate::daemon {

/// Runs `spate-export --server ID`, which stands beside this program: what comes from block clients never reaches the
/// process that holds the file system's data. Made and destroyed by the thread that outlives all others (the kernel
/// ends the child with it, also when this process is killed).
class BlockRole {
 public:
  /// `on_end` is called, from a thread of its own, when the child has ended, for whatever reason.
  static Result<std::unique_ptr<BlockRole>> start(const assembly::ServerSettings& settings,
                                                  std::function<void()> on_end);
  BlockRole(const BlockRole&) = delete;
  BlockRole& operator=(const BlockRole&) = delete;
  /// Asks it to end and waits: requests under way are answered first.
  ~BlockRole();

  /// Asks it to end. For signal handlers. False: it has ended.
  bool ask_to_end();
  /// It has ended without being asked to.
  bool failed() const { return failed_; }

 private:
  BlockRole(pid_t child, std::function<void()> on_end);
  void wait();

  std::atomic<pid_t> child_;
  std::atomic<bool> asked_{false};
  std::atomic<bool> failed_{false};
  const std::function<void()> on_end_;
  std::thread waiter_;
};

}  // namespace spate::daemon
