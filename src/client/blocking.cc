// SPDX-License-Identifier: Apache-2.0
#include "client/blocking.h"

#include <algorithm>
#include <utility>

namespace spate::client {
namespace {

constexpr Duration kKeepAlivePeriod = std::chrono::seconds(1);
/// Between two calls of a busy program no thread drives for a moment. A thread that took over in each of these moments
/// would only delay the program's next call.
constexpr Duration kIdlePeriod = std::chrono::milliseconds(3);

}  // namespace

Driver::Driver(job::Executor& executor, ProgressMode progress_mode)
    : executor_(executor), kind_(progress_mode), gate_(executor) {
  if (progress_mode == ProgressMode::kSlow) progress_thread_ = std::thread([this] { keep_alive(); });
  if (progress_mode == ProgressMode::kReady) progress_thread_ = std::thread([this] { drive_when_idle(); });
  if (progress_mode == ProgressMode::kAlways) progress_thread_ = std::thread([this] { drive_always(); });
}

Driver::~Driver() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    idle_.notify_all();
  }
  executor_.wake();
  if (progress_thread_.joinable()) progress_thread_.join();
}

job::Task<void> Driver::finish(CallBase& call) {
  co_await call.run();
  const std::lock_guard lock(mutex_);
  call.done = true;
  if (call.sleeper != nullptr) call.sleeper->wake.notify_one();
}

void Driver::submit(CallBase& call) { job::spawn(gate_, finish(call)); }

/// Called by the driving thread with the lock held: lets another thread drive.
void Driver::stop_driving() {
  driving_ = false;
  if (sleepers_ != nullptr) {
    sleepers_->wake.notify_one();
  } else if (kind_ == ProgressMode::kAlways || std::exchange(rests_, false)) {
    // Otherwise the background thread looks from time to time. If each call woke it, it would delay the next call.
    idle_.notify_one();
  }
}

void Driver::drive(std::span<CallBase* const> calls) {
  const auto one_done = [&] {
    return std::any_of(calls.begin(), calls.end(), [](const CallBase* call) { return call->done; });
  };
  while (!one_done()) {
    if (!executor_.step() && !one_done()) executor_.sleep_until_event();
  }
}

/// False: one of the calls is done. True: no thread drives, and the caller may.
bool Driver::sleep_until_my_turn(std::unique_lock<std::mutex>& lock, std::span<CallBase* const> calls) {
  const auto one_done = [&] {
    return std::any_of(calls.begin(), calls.end(), [](const CallBase* call) { return call->done; });
  };
  Sleeper self;
  self.next = sleepers_;
  sleepers_ = &self;
  for (CallBase* call : calls) call->sleeper = &self;
  while (!one_done() && driving_) self.wake.wait(lock);
  for (CallBase* call : calls) call->sleeper = nullptr;
  Sleeper** link = &sleepers_;
  while (*link != &self) link = &(*link)->next;
  *link = self.next;
  if (!one_done()) return true;
  if (!driving_) stop_driving();  // the wake was meant for the next driver
  return false;
}

std::size_t Driver::drive_until_one_is_done(std::span<CallBase* const> calls, bool begin_first) {
  std::unique_lock lock(mutex_);
  bool may_drive = !driving_;
  if (!may_drive) {
    if (begin_first) executor_.post([this, call = calls.front()] { submit(*call); });
    may_drive = sleep_until_my_turn(lock, calls);
    begin_first = false;
  }
  if (may_drive) {
    driving_ = true;
    ++drives_;
    lock.unlock();
    if (begin_first) submit(*calls.front());
    drive(calls);
    lock.lock();
    stop_driving();
  }
  const auto found = std::find_if(calls.begin(), calls.end(), [](const CallBase* call) { return call->done; });
  return static_cast<std::size_t>(found - calls.begin());
}

void Driver::begin(CallBase& call) {
  std::unique_lock lock(mutex_);
  if (driving_) {
    executor_.post([this, &call] { submit(call); });
    return;
  }
  driving_ = true;
  ++drives_;
  lock.unlock();
  submit(call);
  executor_.step();  // sends now what the call has posted, instead of when a thread waits for the call
  lock.lock();
  stop_driving();
}

bool Driver::test(Started& started) {
  CallBase& call = started.call();
  std::unique_lock lock(mutex_);
  if (call.done || driving_) return call.done;
  driving_ = true;
  ++drives_;
  lock.unlock();
  while (!call.done && executor_.step()) {
  }
  lock.lock();
  stop_driving();
  return call.done;
}

bool Driver::is_done(Started& started) {
  const std::lock_guard lock(mutex_);
  return started.call().done;
}

std::size_t Driver::wait_any(std::span<Started* const> started) {
  std::vector<CallBase*> calls;
  calls.reserve(started.size());
  for (Started* one : started) calls.push_back(&one->call());
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(calls.begin(), calls.end(), [](const CallBase* call) { return call->done; });
    if (found != calls.end()) return static_cast<std::size_t>(found - calls.begin());
  }
  return drive_until_one_is_done(calls, false);
}

void Driver::keep_alive() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    idle_.wait_for(lock, kKeepAlivePeriod);
    if (stopping_ || driving_) continue;
    driving_ = true;
    lock.unlock();
    // In a few turns, due timers fire, their messages leave, and answers that have come are taken.
    for (int turn = 0; turn < 8; ++turn) executor_.step();
    lock.lock();
    stop_driving();
  }
}

/// Drives while no other thread does. A thread that wants to drive wakes the executor and takes over.
void Driver::drive_when_idle() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const std::uint64_t before = drives_;
    idle_.wait_for(lock, kIdlePeriod);
    if (stopping_ || drives_ != before) continue;
    if (driving_) {  // for the whole period: a long call, or a thread that drives while it has none
      rests_ = true;
      while (rests_ && !stopping_) idle_.wait(lock);
      continue;
    }
    drive_for_nobody(lock, [] { return false; });
  }
}

void Driver::drive_until(const std::function<bool()>& over) {
  std::unique_lock lock(mutex_);
  if (driving_) return;
  ++drives_;
  drive_for_nobody(lock, over);
}

/// Drives although no call waits, until `over()` or until one does. Does not poll, as the next event may be far away.
void Driver::drive_for_nobody(std::unique_lock<std::mutex>& lock, const std::function<bool()>& over) {
  driving_ = true;
  while (!stopping_ && sleepers_ == nullptr) {
    lock.unlock();
    const bool did = executor_.step();
    const bool ends = over();
    if (!did && !ends) executor_.sleep_at_once();
    lock.lock();
    if (ends) break;
  }
  stop_driving();
}

void Driver::drive_always() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    while (driving_ && !stopping_) idle_.wait(lock);
    if (stopping_) break;
    driving_ = true;
    while (!stopping_) {
      lock.unlock();
      if (!executor_.step()) executor_.sleep_until_event();
      lock.lock();
    }
    stop_driving();
  }
}

}  // namespace spate::client
