// SPDX-License-Identifier: Apache-2.0
// Event: lets coroutines of one executor wait until another one announces something.
#pragma once

#include <coroutine>

#include "base/result.h"
#include "job/wait_list.h"

namespace spate::job {

/// Level-triggered: while the event is set, wait() returns at once. Any number of coroutines of one executor may wait.
/// Not thread-safe; pinned. No coroutine may wait when the event is destroyed.
class Event {
 public:
  explicit Event(Executor& executor) : waiters_(executor) {}

  bool is_set() const { return set_; }
  void reset() { set_ = false; }
  void set() {
    set_ = true;
    while (waiters_.first() != nullptr) waiters_.wake_first();
  }
  /// kOk when set; the token's reason when stopped first.
  auto wait(StopToken stop = {}) { return Awaiter(*this, stop); }

 private:
  class Awaiter final : public WaitList::Waiter {
   public:
    Awaiter(Event& owner, StopToken stop) : Waiter(stop), owner_(owner) {}
    bool await_ready() const { return owner_.set_ || stop().stopped(); }
    void await_suspend(std::coroutine_handle<> handle) { owner_.waiters_.add(*this, handle); }
    Result<void> await_resume() const { return stop().stopped() ? Result<void>(stop().reason()) : Result<void>(); }

   private:
    Event& owner_;
  };

  WaitList waiters_;
  bool set_ = false;
};

}  // namespace spate::job
