// SPDX-License-Identifier: Apache-2.0
// PageWatch: learns from the kernel (userfaultfd(2)) that pages of this process are unmapped, moved or dropped.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"
#include "bmi/pin_cache.h"

namespace spate::bmi {

/// Whoever unmaps watched pages waits in the kernel until the watching thread has read of it. That thread takes no lock
/// that anybody holds while unmapping and allocates nothing, so nobody waits for himself. What it has read is in the
/// queue before the call that unmaps returns, or is_reading() is true until it is: take_ended() waits for that moment,
/// so whoever asks after an unmapping has returned hears of it.
class PageWatch final : public PageWatcher {
 public:
  /// kNotSupported, with the reason, where the kernel does not let this process (docs/memory-registration.md).
  static Result<std::unique_ptr<PageWatch>> start();
  PageWatch(const PageWatch&) = delete;
  PageWatch& operator=(const PageWatch&) = delete;
  ~PageWatch() override;

  bool watch(const PageRange& range) override;
  void unwatch(const PageRange& range) override;

  /// Calls `ended` for each run of pages that went away since the last call; ranges that were never watched may be
  /// among them. One thread at a time.
  void take_ended(const std::function<void(const PageRange&)>& ended);

 private:
  explicit PageWatch(UniqueFd fault, UniqueFd stop);
  void run();
  void read_one();
  void push(const PageRange& range);

  static constexpr std::size_t kQueue = 1024;
  UniqueFd fault_;
  UniqueFd stop_;
  std::atomic<std::uint32_t> reading_{0};  // odd while an event is between the kernel and the queue
  std::atomic<bool> any_{false};           // the queue is not empty
  std::mutex mutex_;                       // held for a few instructions only; guards the queue
  std::array<PageRange, kQueue> queue_;
  std::size_t queued_ = 0;
  bool overflow_ = false;  // more than fit: everything may have ended
  std::thread thread_;
};

}  // namespace spate::bmi
