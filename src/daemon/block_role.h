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

/// Runs `spate-export --server ID`, a program beside this one, so that messages of block clients never reach the
/// process that holds the file system's data. The main thread makes and destroys it: the kernel ends the child when
/// that thread ends, also when this process is killed. The destructor asks the child to end and waits for it.
class BlockRole {
 public:
  /// `on_end` is called, from a thread of its own, when the child has ended, for whatever reason.
  static Result<std::unique_ptr<BlockRole>> start(const assembly::ServerSettings& settings,
                                                  std::function<void()> on_end);
  BlockRole(const BlockRole&) = delete;
  BlockRole& operator=(const BlockRole&) = delete;
  /// Asks the child to end and waits; the child answers running requests first.
  ~BlockRole();

  /// Asks the child to end. For signal handlers. False: it has ended already.
  bool ask_to_end();
  /// Whether the child ended without a request to end, or with a status other than 0.
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
