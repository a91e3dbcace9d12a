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
bool is_being_killed(pid_t thread) {
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigPnd:") && !line.starts_with("ShdPnd:")) continue;
    const unsigned long long current = std::strtoull(line.c_str() + 7, nullptr, 16);
    if ((current >> (SIGKILL - 1) & 1U) != 0) return true;
  }
  return false;
}

}  // namespace

CurrentRequest& CurrentRequest::of_this_thread() {
  thread_local CurrentRequest current;
  return current;
}

void CurrentRequest::begin(Mount& mount, std::uint64_t request_id, Hints hints) {
  mount_ = &mount;
  request_id_ = request_id;
  hints_ = hints;
  abandoned_ = false;
}

void CurrentRequest::begin_wait(fuse_req_t request) {
  request_ = request;
  {
    const std::lock_guard lock(mutex_);
    waiting_ = true;
  }
  fuse_req_interrupt_func(request_, on_interrupt, this);
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
  const std::lock_guard lock(current.mutex_);
  if (!current.waiting_ || current.abandoned_ || !is_being_killed(fuse_req_ctx(request)->pid)) return;
  current.abandoned_ = true;
  fuse_reply_err(request, EINTR);
}

}  // namespace spate::fuse
