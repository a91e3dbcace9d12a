// SPDX-License-Identifier: Apache-2.0
// DeadlineScope: a StopToken that fires with kTimeout at a given time, or earlier with the parent's reason.
#pragma once

#include "job/executor.h"
#include "job/stop.h"

namespace spate::job {

/// Lives on the frame of the coroutine that has the deadline, and so outlives every call that gets its token. Pinned.
/// Not thread-safe: the executor's thread. The parent's source outlives it. If the parent has already stopped, the
/// token is stopped from the start; without a deadline (MonoTime::never()) it stops with the parent only. The
/// destructor ends the timer: afterwards nothing fires.
class DeadlineScope {
 public:
  DeadlineScope(Executor& executor, MonoTime deadline, StopToken parent) : timer_(executor) {
    if (parent.stopped()) {
      source_.request_stop(parent.reason());
      return;
    }
    parent_ = parent;
    on_parent_.arm(parent, [](void* self) { static_cast<DeadlineScope*>(self)->stop_by_parent(); }, this);
    if (deadline != MonoTime::never()) {
      timer_.arm(deadline, [](void* s) { static_cast<DeadlineScope*>(s)->source_.request_stop(Errc::kTimeout); }, this);
    }
  }
  DeadlineScope(const DeadlineScope&) = delete;
  DeadlineScope& operator=(const DeadlineScope&) = delete;

  StopToken token() { return StopToken(source_); }
  StopSource& source() { return source_; }

 private:
  void stop_by_parent() { source_.request_stop(parent_.reason()); }
  StopSource source_;
  Executor::Timer timer_;
  StopToken parent_;
  StopCallback on_parent_;
};

}  // namespace spate::job
