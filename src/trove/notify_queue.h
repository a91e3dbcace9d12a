// SPDX-License-Identifier: Apache-2.0
// NotifyQueue: from worker threads to the one thread that tests. Wakes a sleeper through an eventfd.
#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/unique_fd.h"

namespace spate::trove {

/// push() from any thread; the rest from the testing thread.
template <typename T>
class NotifyQueue {
 public:
  /// Ends the process when there is no descriptor left: without one nothing could ever wake.
  NotifyQueue() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) { SPATE_CHECK(event_.get() >= 0); }

  void push(T item) {
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(item));
      size_.store(queue_.size(), std::memory_order_release);
      wake = std::exchange(sleeping_, false);
    }
    if (!wake) return;
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then the descriptor is readable.
    [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
  }

  /// Moves the oldest item into `out`; false when there is none (and then takes no lock).
  bool pop(T& out) {
    if (size_.load(std::memory_order_acquire) == 0) return false;
    const std::lock_guard lock(mutex_);
    out = std::move(queue_.front());
    queue_.pop_front();
    size_.store(queue_.size(), std::memory_order_release);
    return true;
  }

  int descriptor() const { return event_.get(); }
  /// Clears the descriptor and asks for a wake by the next push. False when something is there already.
  bool prepare_to_wait() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto drained = ::read(event_.get(), &count, sizeof count);
    const std::lock_guard lock(mutex_);
    sleeping_ = queue_.empty();
    return sleeping_;
  }

 private:
  UniqueFd event_;
  std::mutex mutex_;
  std::deque<T> queue_;    // guarded by mutex_
  bool sleeping_ = false;  // guarded by mutex_: a push must write to event_
  std::atomic<std::size_t> size_{0};
};

}  // namespace spate::trove
