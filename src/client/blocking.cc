// SPDX-License-Identifier: Apache-2.0
#include "client/blocking.h"

namespace spate::client {

Driver::Driver(job::Executor& executor, Duration keep_alive_period) : executor_(executor), gate_(executor) {
  if (keep_alive_period.count() > 0) keeper_ = std::thread([this, keep_alive_period] { keep_alive(keep_alive_period); });
}

Driver::~Driver() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    idle_.notify_all();
  }
  if (keeper_.joinable()) keeper_.join();
}

job::Task<void> Driver::finish(CallBase& call) {
  co_await call.run();
  const std::lock_guard lock(mutex_);
  call.done = true;
  call.wake.notify_one();
}

void Driver::submit(CallBase& call) { job::spawn(gate_, finish(call)); }

void Driver::drive(CallBase& call) {
  while (!call.done) {
    executor_.turn();
  }
}

void Driver::drive_until_done(CallBase& call) {
  std::unique_lock lock(mutex_);
  if (driving_) {
    executor_.post([this, c = &call] { submit(*c); });
    call.next = sleepers_;
    sleepers_ = &call;
    while (!call.done && driving_) call.wake.wait(lock);
    CallBase** link = &sleepers_;
    while (*link != &call) link = &(*link)->next;
    *link = call.next;
    if (call.done) {
      if (!driving_ && sleepers_ != nullptr) sleepers_->wake.notify_one();  // the wake was meant for whoever drives next
      return;
    }
    driving_ = true;
    lock.unlock();
  } else {
    driving_ = true;
    lock.unlock();
    submit(call);
  }
  drive(call);
  lock.lock();
  driving_ = false;
  if (sleepers_ != nullptr) sleepers_->wake.notify_one();
}

void Driver::keep_alive(Duration period) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    idle_.wait_for(lock, period);
    if (stopping_ || driving_) continue;
    driving_ = true;
    lock.unlock();
    // A few turns: due timers fire, their messages leave, answers of the last time are taken.
    for (int turn = 0; turn < 8; ++turn) executor_.step();
    lock.lock();
    driving_ = false;
    if (sleepers_ != nullptr) sleepers_->wake.notify_one();
  }
}

}  // namespace spate::client
