// SPDX-License-Identifier: Apache-2.0
// Event: lets coroutines of one executor wait until another one announces something.
#pragma once

#include <coroutine>

#include "base/check.h"
#include "base/result.h"
#include "job/executor.h"

namespace spate::job {

/// Level-triggered: while the event is set, wait() returns at once. Any number of coroutines of one executor may wait.
/// Not thread-safe; pinned. No coroutine may wait when the event is destroyed.
class Event {
 public:
  explicit Event(Executor& executor) : executor_(executor) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { SPATE_CHECK(first_ == nullptr); }

  bool is_set() const { return set_; }
  void reset() { set_ = false; }
  void set() {
    set_ = true;
    while (first_ != nullptr) {
      Awaiter* waiter = first_;
      waiter->unlink();
      waiter->on_stop_.disarm();
      executor_.schedule(waiter->handle_);
    }
  }
  /// kOk when set; the token's reason when stopped first.
  auto wait(StopToken stop = {}) { return Awaiter(*this, stop); }

 private:
  class Awaiter {
   public:
    Awaiter(Event& owner, StopToken stop) : owner_(owner), stop_(stop) {}
    bool await_ready() const { return owner_.set_ || stop_.stopped(); }
    void await_suspend(std::coroutine_handle<> handle) {
      handle_ = handle;
      (owner_.last_ != nullptr ? owner_.last_->next_ : owner_.first_) = this;
      previous_ = owner_.last_;
      owner_.last_ = this;
      on_stop_.arm(stop_, [](void* self) { static_cast<Awaiter*>(self)->give_up(); }, this);
    }
    Result<void> await_resume() { return stop_.stopped() ? Result<void>(stop_.reason()) : Result<void>(); }

   private:
    friend class Event;
    void unlink() {
      (previous_ != nullptr ? previous_->next_ : owner_.first_) = next_;
      (next_ != nullptr ? next_->previous_ : owner_.last_) = previous_;
    }
    void give_up() {
      unlink();
      owner_.executor_.schedule(handle_);
    }
    Event& owner_;
    StopToken stop_;
    StopCallback on_stop_;
    std::coroutine_handle<> handle_;
    Awaiter* next_ = nullptr;
    Awaiter* previous_ = nullptr;
  };

  Executor& executor_;
  bool set_ = false;
  Awaiter* first_ = nullptr;
  Awaiter* last_ = nullptr;
};

}  // namespace spate::job
