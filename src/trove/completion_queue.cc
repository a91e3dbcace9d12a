// SPDX-License-Identifier: Apache-2.0
#include "trove/completion_queue.h"

#include <sys/eventfd.h>

#include "base/check.h"

namespace spate::trove {

CompletionQueue::CompletionQueue() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  SPATE_CHECK(event_.get() >= 0);
}

void CompletionQueue::push(BytestreamCompletion completion) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(completion));
    size_.store(queue_.size(), std::memory_order_release);
    wake = std::exchange(sleeping_, false);
  }
  if (!wake) return;
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the descriptor is readable.
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

std::size_t CompletionQueue::pop(std::span<BytestreamCompletion> out) {
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

bool CompletionQueue::prepare_to_wait() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto drained = ::read(event_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  sleeping_ = queue_.empty();
  return sleeping_;
}

}  // namespace spate::trove
