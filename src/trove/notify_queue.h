// SPDX-License-Identifier: Apache-2.0
// NotifyQueue: carries items from worker threads to the testing thread, and wakes that thread through an eventfd.
#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/unique_fd.h"

namespace spate::trove {

/// Any thread may call push(). Only the testing thread calls the rest.
template <typename T>
class NotifyQueue {
 public:
  /// Ends the process if no descriptor is left, since nothing could wake the testing thread then.
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
    // The write fails only when the counter is full. The descriptor is readable then.
    [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
  }

  /// Moves the oldest item into `out`. Returns false, without taking the lock, if there is none.
  bool pop(T& out) {
    if (size_.load(std::memory_order_acquire) == 0) return false;
    const std::lock_guard lock(mutex_);
    out = std::move(queue_.front());
    queue_.pop_front();
    size_.store(queue_.size(), std::memory_order_release);
    return true;
  }

  /// Moves up to out.size() items out, the oldest first. Takes no lock if there is none.
  std::size_t pop(std::span<T> out) {
    if (size_.load(std::memory_order_acquire) == 0) return 0;
    const std::lock_guard lock(mutex_);
    std::size_t n = 0;
    for (; n < out.size() && !queue_.empty(); ++n) {
      out[n] = std::move(queue_.front());
      queue_.pop_front();
    }
    size_.store(queue_.size(), std::memory_order_release);
    return n;
  }

  int descriptor() const { return event_.get(); }
  /// Clears the descriptor and makes the next push wake the sleeper. Returns false if something is queued already.
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
