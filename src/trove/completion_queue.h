// SPDX-License-Identifier: Apache-2.0
// CompletionQueue: from worker threads to the one thread that tests. Wakes a sleeper through an eventfd.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <span>

#include "base/unique_fd.h"
#include "trove/bytestream.h"

namespace spate::trove {

/// push() from any thread; the rest from the testing thread.
class CompletionQueue {
 public:
  /// Ends the process when there is no descriptor left: without one nothing could ever wake.
  CompletionQueue();

  void push(BytestreamCompletion completion);
  /// Moves up to out.size() completions out. No lock when there is none.
  std::size_t pop(std::span<BytestreamCompletion> out);

  int descriptor() const { return event_.get(); }
  /// Clears the descriptor and asks for a wake by the next push. False when something is there already.
  bool prepare_to_wait();

 private:
  UniqueFd event_;
  std::mutex mutex_;
  std::deque<BytestreamCompletion> queue_;  // guarded by mutex_
  bool sleeping_ = false;                   // guarded by mutex_: a push must write to event_
  std::atomic<std::size_t> size_{0};
};

}  // namespace spate::trove
