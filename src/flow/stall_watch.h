// SPDX-License-Identifier: Apache-2.0
// StallWatch: ends a transfer whose peer makes no progress, so that it cannot hold buffers for ever.
#pragma once

#include "job/executor.h"
#include "job/stop.h"

namespace spate::flow {

/// The token stops with `parent`. It stops with kTimeout if progress() was not called for one to two times `limit`.
/// Uses one timer, whatever the number of messages. Not movable. Not thread-safe: one executor.
class StallWatch {
 public:
  StallWatch(job::Executor& executor, Duration limit) : timer_(executor), executor_(executor), limit_(limit) {}
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  /// `parent` outlives the watch, unless end() is called first.
  void begin(job::StopToken parent);
  void progress() { ++moves_; }
  /// Stops the timer and detaches from the parent. The token keeps its state.
  void end();
  job::StopToken token() { return job::StopToken(source_); }

 private:
  void arm();
  void fire();

  job::StopSource source_;
  job::StopToken parent_;
  job::StopCallback on_parent_;
  job::Executor::Timer timer_;
  job::Executor& executor_;
  const Duration limit_;
  std::uint64_t moves_ = 0;
  std::uint64_t seen_ = 0;
};

}  // namespace spate::flow
