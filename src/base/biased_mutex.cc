// SPDX-License-Identifier: Apache-2.0
#include "base/biased_mutex.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/check.h"

namespace spate {
namespace {

constexpr std::uint32_t kInARow = 64;    // so many locks in a row make a thread the owner
constexpr std::uint32_t kTakenAway = 4;  // so many losses of the ownership end it for good

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

/// Makes every thread of this process pass a full barrier before it returns. False: the kernel has no such call.
bool barrier_everywhere() {
  return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
         (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

bool can_be_biased() {
  static const bool can = barrier_everywhere();
  return can;
}

}  // namespace

constinit thread_local std::uint64_t BiasedMutex::number_ = 0;

std::uint64_t BiasedMutex::new_number() {
  static std::atomic<std::uint64_t> last{0};
  number_ = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number_;
}

void BiasedMutex::lock_shared_way(std::uint64_t self) {
  mutex_.lock();
  if (owner_.load(std::memory_order_relaxed) != 0) take_away();
  by_owner_ = false;
  in_a_row_ = last_ == self ? in_a_row_ + 1 : 0;
  last_ = self;
}

void BiasedMutex::unlock_shared_way() {
  if (in_a_row_ >= kInARow && times_taken_away_ < kTakenAway && can_be_biased()) {
    in_a_row_ = 0;
    owner_.store(last_, std::memory_order_relaxed);  // last_ is this thread, which holds the lock
  }
  mutex_.unlock();
}

void BiasedMutex::take_away() {
  constexpr int kSpins = 1000;
  owner_.store(0, std::memory_order_relaxed);
  ++times_taken_away_;
  SPATE_CHECK(barrier_everywhere());
  for (int i = 0; held_.load(std::memory_order_acquire); ++i) {
    if (i >= kSpins) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace spate
