// SPDX-License-Identifier: Apache-2.0
// StallWatch: ends a transfer whose peer has stopped moving, so that it cannot hold buffers for ever.
#pragma once

#include "job/executor.h"
#include "job/stop.h"

namespace spate::flow {

/// A stop of its own below `parent`'s: fires with kTimeout when progress() was not called for one to two times `limit`.
/// One timer, whatever the number of messages. Pinned; one executor.
class StallWatch {
 public:
  StallWatch(job::Executor& executor, Duration limit) : timer_(executor), executor_(executor), limit_(limit) {}
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  /// `parent` must outlive the watch or be let go of by end().
  void begin(job::StopToken parent);
  void progress() { ++moves_; }
  /// Timer and parent are let go of; the token stays as it is.
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
