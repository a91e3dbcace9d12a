// SPDX-License-Identifier: Apache-2.0
#include "server/io/datafile_lock.h"

namespace spate::io {

bool DatafileLock::try_take(Mode mode) {
  if (holders_ > 0 && (held_ != mode || mode == Mode::kExclusive)) return false;
  if (!converting_.empty()) return false;  // otherwise successive direct writes would keep a conversion waiting forever
  held_ = mode;
  ++holders_;
  return true;
}

void DatafileLock::let_go() {
  --holders_;
  std::ignore = convert_all(0);
  serve();
}

/// If all holders wait for a conversion (`more` of them are about to), the lock becomes shared. Returns whether it has.
bool DatafileLock::convert_all(std::size_t more) {
  if (converting_.size() + more == 0 || converting_.size() + more < holders_) return false;
  held_ = Mode::kShared;
  for (Conversion* const waiter : std::exchange(converting_, {})) {
    waiter->on_stop_.disarm();
    waiter->done_ = true;
    executor_.schedule(waiter->handle_);
  }
  serve();
  return true;
}

void DatafileLock::Conversion::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  lock_.converting_.push_back(this);
  on_stop_.arm(stop_, [](void* self) { static_cast<Conversion*>(self)->give_up(); }, this);
}

void DatafileLock::Conversion::give_up() {
  std::erase(lock_.converting_, this);
  lock_.executor_.schedule(handle_);  // it releases the lock when it resumes
}

void DatafileLock::serve() {
  while (first_ != nullptr && try_take(first_->mode_)) {
    Awaiter* const waiter = first_;
    waiter->unlink();
    waiter->on_stop_.disarm();
    waiter->granted_ = true;
    executor_.schedule(waiter->handle_);
  }
}

void DatafileLock::Awaiter::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  (lock_.last_ != nullptr ? lock_.last_->next_ : lock_.first_) = this;
  previous_ = lock_.last_;
  lock_.last_ = this;
  on_stop_.arm(stop_, [](void* self) { static_cast<Awaiter*>(self)->give_up(); }, this);
}

void DatafileLock::Awaiter::unlink() {
  (previous_ != nullptr ? previous_->next_ : lock_.first_) = next_;
  (next_ != nullptr ? next_->previous_ : lock_.last_) = previous_;
}

void DatafileLock::Awaiter::give_up() {
  unlink();
  lock_.executor_.schedule(handle_);
  lock_.serve();  // requests behind a stopped exclusive one may run now
}

}  // namespace spate::io
