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

MemoryKeeper::MemoryKeeper() {
  ::mallopt(M_ARENA_MAX, 2);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the other threads
  thread_ = std::thread([this] { keep(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

MemoryKeeper::~MemoryKeeper() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void MemoryKeeper::keep() {
  std::unique_lock lock(mutex_);
  bool to_trim = false;
  auto used = processor_time();
  while (!wake_.wait_for(lock, kPeriod, [this] { return ending_; })) {
    const auto now = processor_time();
    const bool busy = now - used > kBusy;
    if (to_trim && !busy) ::malloc_trim(0);
    to_trim = busy;
    used = processor_time();
  }
}

}  // namespace spate::daemon
