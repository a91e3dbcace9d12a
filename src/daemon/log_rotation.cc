// SPDX-License-Identifier: Apache-2.0
#include "daemon/log_rotation.h"

#include <pthread.h>

#include <csignal>

#include "log/fields.h"
#include "log/log.h"
#include "log/output.h"

namespace spate::daemon {
namespace {

sigset_t hang_up() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

LogRotation::LogRotation() {
  const sigset_t set = hang_up();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { wait_for_signals(); });
}

LogRotation::~LogRotation() {
  stopping_ = true;
  ::pthread_kill(thread_.native_handle(), SIGHUP);
  thread_.join();
}

void LogRotation::on_signal(std::function<Result<void>()> reopen) {
  const std::lock_guard lock(mutex_);
  reopen_ = std::move(reopen);
}

void LogRotation::wait_for_signals() {
  const sigset_t set = hang_up();
  for (int signal = 0; ::sigwait(&set, &signal) == 0 && !stopping_;) {
    const auto opened = log::reopen_file();
    if (!opened) SPATE_LOG("daemon", error, "log goes on in the old file error={}", opened.error());
    const std::lock_guard lock(mutex_);
    const auto other = reopen_ ? reopen_() : Result<void>();
    if (!other) SPATE_LOG("daemon", error, "audit log goes on in the old file error={}", other.error());
  }
}

}  // namespace spate::daemon
