// SPDX-License-Identifier: Apache-2.0
#include "fuse/pending.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

namespace spate::fuse {
namespace {

/// A fatal signal is on its way to the thread: the kernel turns each into a pending SIGKILL.
bool is_being_killed(pid_t thread) {
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigPnd:") && !line.starts_with("ShdPnd:")) continue;
    const unsigned long long pending = std::strtoull(line.c_str() + 7, nullptr, 16);
    if ((pending >> (SIGKILL - 1) & 1U) != 0) return true;
  }
  return false;
}

}  // namespace

Pending& Pending::of_this_thread() {
  thread_local Pending pending;
  return pending;
}

void Pending::begin(Mount& mount, std::uint64_t cause, Hints hints) {
  mount_ = &mount;
  cause_ = cause;
  hints_ = hints;
  abandoned_ = false;
}

void Pending::begin_wait(fuse_req_t request) {
  request_ = request;
  {
    const std::lock_guard lock(mutex_);
    waiting_ = true;
  }
  fuse_req_interrupt_func(request_, on_interrupt, this);
}

void Pending::end_wait() {
  {
    const std::lock_guard lock(mutex_);
    waiting_ = false;
    if (abandoned_) return;
  }
  fuse_req_interrupt_func(request_, nullptr, nullptr);  // waits for an interrupt that is being handled
}

void Pending::on_interrupt(fuse_req_t request, void* self) {
  auto& pending = *static_cast<Pending*>(self);
  const std::lock_guard lock(pending.mutex_);
  if (!pending.waiting_ || pending.abandoned_ || !is_being_killed(fuse_req_ctx(request)->pid)) return;
  pending.abandoned_ = true;
  fuse_reply_err(request, EINTR);
}

}  // namespace spate::fuse
