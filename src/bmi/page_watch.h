// SPDX-License-Identifier: Apache-2.0
// PageWatch: the kernel (userfaultfd(2)) tells it when pages of this process are unmapped, moved or dropped.
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

/// A thread that unmaps watched pages waits in the kernel until the watching thread has read the event. The watching
/// thread allocates nothing and takes no lock that another thread holds while it unmaps, so there is no deadlock.
/// When the call that unmaps returns, the event is in the queue, or the watching thread is about to put it there.
/// take_ended() waits for that moment, so a caller that asks after the unmapping sees the event. The destructor ends
/// the thread and waits for it.
class PageWatch final : public PageWatcher {
 public:
  /// kNotSupported, with the reason, if the kernel does not permit it to this process (docs/memory-registration.md).
  static Result<std::unique_ptr<PageWatch>> start();
  PageWatch(const PageWatch&) = delete;
  PageWatch& operator=(const PageWatch&) = delete;
  ~PageWatch() override;

  bool watch(const PageRange& range) override;
  void unwatch(const PageRange& range) override;

  /// Calls `ended` for each run of pages that went away since the last call. Some of the runs may contain pages that
  /// were never watched. One thread at a time.
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
  std::mutex mutex_;                       // guards the queue; held for a few instructions only
  std::array<PageRange, kQueue> queue_;
  std::size_t queued_ = 0;
  bool overflow_ = false;  // more ranges than fit: everything may have ended
  std::thread thread_;
};

}  // namespace spate::bmi
