// SPDX-License-Identifier: Apache-2.0
// BiasedMutex: a mutex that costs next to nothing for the one thread that takes it all the time.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace spate {

/// Like std::mutex, but cheap for one thread. A thread that has taken the mutex some dozens of times in a row becomes
/// its owner. The owner needs no locked instruction (these cost 20 cycles each, two a critical section). Another thread
/// that locks the mutex takes the ownership away: that costs a system call and a wait for the owner's critical section.
/// After a few such losses, the mutex stays an ordinary one. It is an ordinary mutex from the start if the kernel has
/// no membarrier(2). Thread-safe; the destructor does not wait: nobody may hold the mutex then.
class BiasedMutex {
 public:
  BiasedMutex() = default;
  BiasedMutex(const BiasedMutex&) = delete;
  BiasedMutex& operator=(const BiasedMutex&) = delete;

  void lock() {
    const std::uint64_t self = this_thread();
    if (owner_.load(std::memory_order_relaxed) == self) {
      held_.store(true, std::memory_order_relaxed);
      // A compiler fence is enough here. The thread that takes the ownership away calls membarrier(2). After that call,
      // either that thread sees held_, or this thread sees that it is no longer the owner.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (owner_.load(std::memory_order_relaxed) == self) {
        by_owner_ = true;
        return;
      }
      held_.store(false, std::memory_order_release);
    }
    lock_shared_way(self);
  }
  void unlock() {
    if (by_owner_) {
      held_.store(false, std::memory_order_release);
    } else {
      unlock_shared_way();
    }
  }

 private:
  friend struct BiasedMutexTestAccess;
  /// A number > 0 that no other thread ever gets.
  static std::uint64_t this_thread() { return number_ != 0 ? number_ : new_number(); }
  static std::uint64_t new_number();
  void lock_shared_way(std::uint64_t self);
  void unlock_shared_way();
  void take_away();

  static constinit thread_local std::uint64_t number_;  // 0: none yet

  std::atomic<std::uint64_t> owner_{0};  // set to its own number by a holder of mutex_, to 0 likewise
  std::atomic<bool> held_{false};        // by the owner, without mutex_
  bool by_owner_ = false;                // guarded by the lock itself: how it was taken
  std::mutex mutex_;
  std::uint64_t last_ = 0;      // guarded by mutex_: who took it last
  std::uint32_t in_a_row_ = 0;  // likewise
  std::uint32_t times_taken_away_ = 0;
};

}  // namespace spate
