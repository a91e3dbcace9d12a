// SPDX-License-Identifier: Apache-2.0
// WaitList: the coroutines that wait for one thing, first come, first served. Event and Semaphore are made of it.
#pragma once

#include <coroutine>

#include "base/check.h"
#include "job/executor.h"
#include "job/stop.h"

namespace spate::job {

/// Not thread-safe: one executor. Pinned. No coroutine may wait when it is destroyed.
class WaitList {
 public:
  /// A waiting coroutine. A base of awaiters, so it lies on the coroutine's frame. Pinned.
  class Waiter {
   public:
    explicit Waiter(StopToken stop) : stop_(stop) {}
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   protected:
    virtual ~Waiter() = default;
    const StopToken& stop() const { return stop_; }
    /// The token has stopped, and the coroutine has left the list.
    virtual void gave_up() {}

   private:
    friend class WaitList;
    const StopToken stop_;
    StopCallback on_stop_;
    WaitList* list_ = nullptr;
    std::coroutine_handle<> handle_;
    Waiter* next_ = nullptr;
    Waiter* previous_ = nullptr;
  };

  explicit WaitList(Executor& executor) : executor_(executor) {}
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;
  ~WaitList() { SPATE_CHECK(first_ == nullptr); }

  /// Null when nobody waits.
  Waiter* first() const { return first_; }
  /// Appends the coroutine of `handle` to the list. It waits until wake_first(), or until the waiter's token stops.
  void add(Waiter& waiter, std::coroutine_handle<> handle) {
    waiter.list_ = this;
    waiter.handle_ = handle;
    (last_ != nullptr ? last_->next_ : first_) = &waiter;
    waiter.previous_ = last_;
    last_ = &waiter;
    waiter.on_stop_.arm(waiter.stop_, &WaitList::on_stop, &waiter);
  }
  /// Schedules the first waiting coroutine for a later turn. The list must not be empty.
  void wake_first() {
    Waiter& waiter = *first_;
    waiter.on_stop_.disarm();
    remove(waiter);
  }

 private:
  static void on_stop(void* argument) {
    Waiter& waiter = *static_cast<Waiter*>(argument);
    waiter.list_->remove(waiter);
    waiter.gave_up();
  }
  void remove(Waiter& waiter) {
    (waiter.previous_ != nullptr ? waiter.previous_->next_ : first_) = waiter.next_;
    (waiter.next_ != nullptr ? waiter.next_->previous_ : last_) = waiter.previous_;
    executor_.schedule(waiter.handle_);
  }

  Executor& executor_;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace spate::job
