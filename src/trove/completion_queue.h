// SPDX-License-Identifier: Apache-2.0
// CompletionQueue: carries completions from worker threads to the testing thread, and wakes that thread through an
// eventfd.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <span>

#include "base/unique_fd.h"
#include "trove/bytestream.h"

namespace spate::trove {

/// Any thread may call push(). Only the testing thread calls the rest.
class CompletionQueue {
 public:
  /// Ends the process if no descriptor is left, since nothing could wake the testing thread then.
  CompletionQueue();

  void push(BytestreamCompletion completion);
  /// Moves up to out.size() completions out. No lock when there is none.
  std::size_t pop(std::span<BytestreamCompletion> out);

  int descriptor() const { return event_.get(); }
  /// Clears the descriptor and makes the next push wake the sleeper. Returns false if something is queued already.
  bool prepare_to_wait();

 private:
  UniqueFd event_;
  std::mutex mutex_;
  std::deque<BytestreamCompletion> queue_;  // guarded by mutex_
  bool sleeping_ = false;                   // guarded by mutex_: a push must write to event_
  std::atomic<std::size_t> size_{0};
};

}  // namespace spate::trove
