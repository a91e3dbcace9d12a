// SPDX-License-Identifier: Apache-2.0
#include "fuse/current_request.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

namespace spate::fuse {
namespace {

/// Whether a fatal signal is pending for the thread. The kernel turns each one into a pending SIGKILL.
bool has_fatal_signal(pid_t thread) {
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigPnd:") && !line.starts_with("ShdPnd:")) continue;
    const unsigned long long current = std::strtoull(line.c_str() + 7, nullptr, 16);
    if ((current >> (SIGKILL - 1) & 1U) != 0) return true;
  }
  return false;
}

}  // namespace

bool (*CurrentRequest::is_being_killed)(pid_t thread) = has_fatal_signal;

CurrentRequest& CurrentRequest::of_this_thread() {
  thread_local CurrentRequest current;
  return current;
}

void CurrentRequest::begin(Mount& mount, std::uint64_t request_id, Caller caller, Hints hints) {
  mount_ = &mount;
  request_id_ = request_id;
  caller_ = caller;
  hints_ = hints;
  abandoned_ = false;
}

void CurrentRequest::begin_wait(fuse_req_t request) {
  request_ = request;
  {
    const std::lock_guard lock(mutex_);
    waiting_ = true;
  }
  interrupted_ = false;
  fuse_req_interrupt_func(request_, on_interrupt, this);
  if (!interrupted_) return;
  const std::lock_guard lock(mutex_);
  abandon(request_);
}

void CurrentRequest::end_wait() {
  {
    const std::lock_guard lock(mutex_);
    waiting_ = false;
    if (abandoned_) return;
  }
  fuse_req_interrupt_func(request_, nullptr, nullptr);  // waits for the handler of an interrupt
}

void CurrentRequest::on_interrupt(fuse_req_t request, void* self) {
  auto& current = *static_cast<CurrentRequest*>(self);
  // The interrupt came before begin_wait(). fuse_req_interrupt_func() still uses the request, and an answer frees it.
  if (&current == &of_this_thread()) {
    current.interrupted_ = true;
    return;
  }
  const std::lock_guard lock(current.mutex_);
  current.abandon(request);
}

/// Answers the request if its caller is being killed. Called with mutex_ held.
void CurrentRequest::abandon(fuse_req_t request) {
  if (!waiting_ || abandoned_ || !is_being_killed(caller_.pid)) return;
  abandoned_ = true;
  fuse_reply_err(request, EINTR);
}

}  // namespace spate::fuse
