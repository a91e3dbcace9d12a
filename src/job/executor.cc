// SPDX-License-Identifier: Apache-2.0
#include "job/executor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

namespace spate::job {

namespace {

void add_to(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  SPATE_CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

}  // namespace

Executor::Executor(Clock& clock, Options options)
    : clock_(clock),
      options_(options),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      timer_fd_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
  SPATE_CHECK(wake_fd_ && timer_fd_ && epoll_fd_);
  add_to(epoll_fd_.get(), wake_fd_.get());
  add_to(epoll_fd_.get(), timer_fd_.get());
}

/// A thread whose function has run already may still be inside post(): wait for it.
Executor::~Executor() {
  SPATE_CHECK(ready_.empty() && yielded_.empty());
  SPATE_CHECK(timers_.empty());
  while (posting_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
}

void Executor::add_source(Source& source) {
  sources_.push_back(&source);
  watch(source);
  if (sleeper_ == nullptr) choose_sleeper();
}

void Executor::remove_source(Source& source) {
  if (&source == sleeper_) {
    source.stop_wake_by(wake_fd_.get());
    source.stop_wake_by(timer_fd_.get());
    for (Source* other : sources_) stop_watching(*other);
    sleeper_ = nullptr;
    std::erase(sources_, &source);
    for (Source* other : sources_) watch(*other);
    choose_sleeper();
    return;
  }
  stop_watching(source);
  std::erase(sources_, &source);
}

void Executor::watch(Source& source) {
  const int fd = source.wait_descriptor();
  if (fd < 0 || &source == sleeper_) return;
  if (sleeper_ == nullptr) return add_to(epoll_fd_.get(), fd);
  SPATE_CHECK(sleeper_->wake_by(fd));
}

void Executor::stop_watching(Source& source) {
  const int fd = source.wait_descriptor();
  if (fd < 0 || &source == sleeper_) return;
  if (sleeper_ != nullptr) return sleeper_->stop_wake_by(fd);
  SPATE_CHECK(epoll_ctl(epoll_fd_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0);
}

/// The first source that has a sleep of its own sleeps for all: it watches the others' descriptors, too.
void Executor::choose_sleeper() {
  for (Source* candidate : sources_) {
    if (!candidate->wake_by(wake_fd_.get())) continue;
    for (Source* source : sources_) stop_watching(*source);
    sleeper_ = candidate;
    SPATE_CHECK(sleeper_->wake_by(timer_fd_.get()));
    for (Source* source : sources_) watch(*source);
    return;
  }
}

void Executor::post(UniqueFunction<void()> function) {
  posting_.fetch_add(1, std::memory_order_relaxed);  // published with the function
  {
    const std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(function));
    has_posted_.store(true, std::memory_order_release);
  }
  wake();
  posting_.fetch_sub(1, std::memory_order_release);  // the executor may be destroyed right after this
}

void Executor::wake() {
  const std::uint64_t one = 1;
  // Only a full counter can fail here, and then a wake is pending already.
  [[maybe_unused]] const auto written = ::write(wake_fd_.get(), &one, sizeof one);
  woken_.store(true, std::memory_order_release);  // after the write: a thread that sees it finds something to read
}

void Executor::run() {
  while (!exit_requested_.load(std::memory_order_acquire)) turn();
  exit_requested_.store(false, std::memory_order_release);
}

void Executor::request_exit() {
  exit_requested_.store(true, std::memory_order_release);
  wake();
}

bool Executor::step() {
  ready_.insert(ready_.end(), yielded_.begin(), yielded_.end());
  yielded_.clear();
  bool did = run_posted();
  did |= fire_timers();
  for (Source* source : sources_) did |= source->poll() > 0;
  did |= run_ready();
  did |= run_turn_end();
  return did;
}

/// Signals of other threads and of the kernel may come after what they announce has been collected. A few wakes for
/// nothing are usual; more of them mean that one of the descriptors stays readable.
void Executor::note_wake(bool did_something) {
  constexpr unsigned kUsual = 8;
  wakes_for_nothing_ = did_something ? 0 : wakes_for_nothing_ + 1;
  if (wakes_for_nothing_ < kUsual) return;
  wakes_for_nothing_ = 0;
  for (Source* source : sources_) source->woken_for_nothing();
}

MonoTime Executor::next_timer() const { return timers_.empty() ? MonoTime::never() : (*timers_.begin())->when_; }

std::coroutine_handle<> Executor::take_ready() {
  if (options_.shuffle != nullptr && ready_.size() > 1) {
    std::swap(ready_.front(), ready_[options_.shuffle->below(ready_.size())]);
  }
  const std::coroutine_handle<> handle = ready_.front();
  ready_.pop_front();
  return handle;
}

/// Also runs some of what becomes ready meanwhile, since a test of the sources costs a system call. Two coroutines that
/// wake each other must not keep the sources from being tested.
bool Executor::run_ready() {
  constexpr int kRounds = 4;  // guess
  if (ready_.empty()) return false;
  for (int round = 0; round < kRounds && !ready_.empty(); ++round) {
    for (std::size_t left = ready_.size(); left > 0; --left) take_ready().resume();
  }
  return true;
}

bool Executor::run_posted() {
  if (!has_posted_.load(std::memory_order_acquire)) return false;
  std::vector<UniqueFunction<void()>> batch;
  {
    const std::lock_guard lock(posted_mutex_);
    batch.swap(posted_);
    has_posted_.store(false, std::memory_order_release);
  }
  for (auto& function : batch) function();
  return !batch.empty();
}

bool Executor::run_turn_end() {
  if (turn_end_.empty() || !ready_.empty() || !yielded_.empty()) return false;
  std::vector<UniqueFunction<void()>> batch;
  batch.swap(turn_end_);
  for (auto& function : batch) function();
  return true;
}

bool Executor::fire_timers() {
  if (timers_.empty()) return false;
  const MonoTime now = clock_.now();
  bool fired = false;
  while (!timers_.empty() && (*timers_.begin())->when_ <= now) {
    Timer* timer = *timers_.begin();
    timer->disarm();
    timer->action_(timer->argument_);  // may destroy the timer
    fired = true;
  }
  return fired;
}

/// Other threads on this processor run first: one of them may be what the answer waits for. A server that was woken on
/// the processor where its client polls would otherwise not run before the client has given up. Their time does not
/// count, unless it is long.
Executor::Polled Executor::poll_for(Duration time) {
  constexpr Duration kOwnTurn = std::chrono::microseconds(4);  // guess: the longest one without a change of threads
  Duration polled(0);
  Duration others(0);
  MonoTime begin = clock_.now();
  while (polled < time && others <= 2 * time) {
    for (Source* source : sources_) {
      if (source->poll() > 0) return Polled::kFound;
    }
    if (has_posted_.load(std::memory_order_acquire)) return Polled::kFound;
    std::this_thread::yield();
    const MonoTime end = clock_.now();
    const Duration own = std::min(end - begin, kOwnTurn);
    polled += own;
    others += end - begin - own;
    begin = end;
  }
  return others > 2 * time ? Polled::kCrowded : Polled::kInVain;
}

/// Polls instead of sleeping, as long as that pays.
bool Executor::spin() {
  if (!polling_.is_due()) return false;
  switch (poll_for(options_.spin)) {
    case Polled::kFound: polling_.found(); return true;
    case Polled::kInVain: polling_.in_vain(); return false;
    case Polled::kCrowded: polling_.crowded(); return false;
  }
  return false;
}

/// A sleep with a time limit makes the kernel start a timer and stop it again each time. In a virtual machine this
/// costs more than the sleep itself. So the timer stays set, and is only ever moved to an earlier time. A timer that is
/// no longer needed ends one sleep for nothing.
void Executor::arm_timer() {
  std::uint64_t count = 0;
  const MonoTime now = clock_.now();
  // If it is due but not readable yet, it becomes readable in a moment, and stays set until then.
  if (armed_for_ <= now && ::read(timer_fd_.get(), &count, sizeof count) > 0) armed_for_ = MonoTime::never();
  if (next_timer() >= armed_for_) return;
  armed_for_ = next_timer();
  const Duration left = std::max(Duration(1), armed_for_ - now);
  itimerspec when{};
  when.it_value.tv_sec = left.count() / 1'000'000'000;
  when.it_value.tv_nsec = left.count() % 1'000'000'000;
  SPATE_CHECK(timerfd_settime(timer_fd_.get(), 0, &when, nullptr) == 0);
}

void Executor::sleep_until_event() {
  if (options_.spin.count() > 0 && spin()) return;
  sleep_at_once();
}

void Executor::sleep_at_once() {
  for (Source* source : sources_) {
    if (source != sleeper_ && !source->prepare_to_wait()) return;
  }
  arm_timer();
  if (sleeper_ != nullptr) {
    sleeper_->wait(Duration(-1));
  } else {
    sleep_on_own_set();
  }
  if (!woken_.exchange(false, std::memory_order_acquire)) return;
  std::uint64_t count = 0;
  [[maybe_unused]] const auto drained = ::read(wake_fd_.get(), &count, sizeof count);
}

void Executor::sleep_on_own_set() {
  std::array<epoll_event, 8> events;  // their number tells that something happened; their contents do not matter
  epoll_wait(epoll_fd_.get(), events.data(), static_cast<int>(events.size()), -1);
}

void Executor::Timer::arm(MonoTime when, void (*action)(void*), void* argument) {
  disarm();
  when_ = when;
  order_ = executor_.next_order_++;
  action_ = action;
  argument_ = argument;
  armed_ = true;
  executor_.timers_.insert(this);
}

void Executor::Timer::disarm() {
  if (!armed_) return;
  executor_.timers_.erase(this);
  armed_ = false;
}

void Executor::SleepAwaiter::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  const auto action = [](void* self) { static_cast<SleepAwaiter*>(self)->fire(); };
  timer_.arm(when_, action, this);
  on_stop_.arm(stop_, action, this);
}

void Executor::SleepAwaiter::fire() {
  timer_.disarm();
  on_stop_.disarm();
  executor_.schedule(handle_);
}

}  // namespace spate::job
