// SPDX-License-Identifier: Apache-2.0
#include "daemon/memory.h"

#include <malloc.h>

#include <chrono>
#include <csignal>
#include <ctime>

namespace spate::daemon {
namespace {

using namespace std::chrono_literals;

constexpr auto kPeriod = 2s;
/// More processor time than this in a period: busy.
constexpr auto kBusy = 20ms;

std::chrono::nanoseconds processor_time() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

MemoryTrimmer::MemoryTrimmer() {
  ::mallopt(M_ARENA_MAX, 2);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits the mask: other threads handle signals
  thread_ = std::thread([this] { keep(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

MemoryTrimmer::~MemoryTrimmer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void MemoryTrimmer::on_trim(std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  on_rest_ = std::move(action);
}

void MemoryTrimmer::keep() {
  std::unique_lock lock(mutex_);
  int periods_at_rest = 2;  // since it was busy
  auto used = processor_time();
  while (!wake_.wait_for(lock, kPeriod, [this] { return ending_; })) {
    const bool busy = processor_time() - used > kBusy;
    periods_at_rest = busy ? 0 : periods_at_rest + 1;
    if (periods_at_rest == 1 && on_rest_) on_rest_();
    if (periods_at_rest == 2) ::malloc_trim(0);
    used = processor_time();
  }
}

}  // namespace spate::daemon
