// SPDX-License-Identifier: Apache-2.0
// NoPipeSignal: keeps SIGPIPE from a thread.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace spate {

/// Keeps SIGPIPE from this thread while it writes by calls that have no flag for that, as send has (sendfile, and write
/// inside of a library). A library must not change the process's signal handlers. The signal goes to this thread, so it
/// suffices to block it here and to take it out again.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_only_);
    sigaddset(&pipe_only_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    const timespec at_once{};
    if (raised && sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&pipe_only_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  bool raised = false;  // the caller has seen EPIPE

 private:
  sigset_t pipe_only_;
  sigset_t before_;
};

}  // namespace spate
