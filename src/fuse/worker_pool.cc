// SPDX-License-Identifier: Apache-2.0
#include "fuse/worker_pool.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/check.h"

namespace spate::fuse {
namespace {

// kMostAlone: the most by which lone requests may outweigh others, each of which counts as several. kManyAlone: from
// this value on, only one thread reads.
constexpr unsigned kMostAlone = 64;
constexpr unsigned kManyAlone = 32;
constexpr unsigned kOfOneOther = 4;
/// How long a reader sleeps on the device alone before it drives. In a row of calls the next one comes within that, and
/// answers that nobody waits for wake no worker.
constexpr timespec kBeforeDriving{0, 300'000};

pid_t own_number() {
  thread_local const auto number = static_cast<pid_t>(::syscall(SYS_gettid));
  return number;
}

}  // namespace

WorkerPool::WorkerPool(const WorkerPoolOptions& options, std::function<bool(bool reads)> start)
    : options_(options),
      start_(std::move(start)),
      watch_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  SPATE_CHECK(watch_ && wake_);
  epoll_event event{};
  event.events = EPOLLIN;
  SPATE_CHECK(::epoll_ctl(watch_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0);
}

bool WorkerPool::start() {
  {
    const std::lock_guard lock(mutex_);
    workers_ += options_.kept;
    ++reading_;
  }
  unsigned started = 0;
  while (started < options_.kept && start_(started == 0)) ++started;
  if (started == options_.kept) return true;
  const std::lock_guard lock(mutex_);
  workers_ -= options_.kept - started;
  if (started == 0) --reading_;
  return started > 0;
}

void WorkerPool::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (IdleWorker* one : idle_) one->wake.notify_one();
}

void WorkerPool::resume() {
  const std::lock_guard lock(mutex_);
  stopped_ = false;
}

void WorkerPool::work_begins(bool reads) {
  const std::lock_guard lock(mutex_);
  if (reads) numbers_.insert(own_number());
}

void WorkerPool::work_ends(Next did) {
  const std::lock_guard lock(mutex_);
  --workers_;
  if (did == Next::kRead) {
    numbers_.erase(own_number());
    --reading_;
  }
  one_less_.notify_all();
}

bool WorkerPool::wait_until_called() {
  std::unique_lock lock(mutex_);
  IdleWorker self;
  idle_.push_back(&self);
  while (!self.called && !stopped_) self.wake.wait(lock);
  if (!self.called) {
    std::erase(idle_, &self);
    return false;
  }
  numbers_.insert(own_number());
  return true;
}

/// Call it with the lock held.
bool WorkerPool::can_call() const { return !stopped_ && (!idle_.empty() || (workers_ < options_.most && !refused_)); }

/// Call it with the lock held. Releases the lock for a time if a thread must be started.
void WorkerPool::call_one(std::unique_lock<std::mutex>& lock) {
  if (!can_call()) return;
  const bool start = idle_.empty();
  ++reading_;
  nobody_reads_ = false;
  if (!start) {
    IdleWorker* const one = idle_.back();
    idle_.pop_back();
    one->called = true;
    one->wake.notify_one();
    return;
  }
  ++workers_;
  lock.unlock();
  const bool started = start_(true);
  lock.lock();
  if (started) return;
  refused_ = true;
  --workers_;
  if (--reading_ == 0 && at_work_ > 0) nobody_reads_ = true;
}

bool WorkerPool::request_waits() const {
  pollfd state{options_.device, POLLIN, 0};
  return ::poll(&state, 1, 0) != 0;  // a reader must see an error, too
}

void WorkerPool::wait_for_request() {
  if (!poll_for_request()) drive_until_request();
}

bool WorkerPool::poll_for_request() {
  {
    const std::lock_guard lock(mutex_);
    if (options_.busy_poll <= Duration(0) || reading_ > 1 || polls_ || stopped_) return false;
    if (alone_ < kManyAlone || !polling_.is_due()) return false;
    polls_ = true;
  }
  const auto until = std::chrono::steady_clock::now() + options_.busy_poll;
  bool found = request_waits();
  while (!found && std::chrono::steady_clock::now() < until) found = request_waits();
  const std::lock_guard lock(mutex_);
  polls_ = false;
  if (found) {
    polling_.found();
  } else {
    polling_.in_vain();
  }
  return found;
}

/// Requests that the executor carries out meanwhile never wait for the kernel, so the caller reads in time.
void WorkerPool::drive_until_request() {
  {
    const std::lock_guard lock(mutex_);
    if (!options_.drive || reading_ > 1 || reader_drives_ || stopped_) return;
  }
  pollfd state{options_.device, POLLIN, 0};
  if (::ppoll(&state, 1, &kBeforeDriving, nullptr) != 0) return;
  {
    const std::lock_guard lock(mutex_);
    if (reading_ > 1 || reader_drives_ || stopped_) return;
    reader_drives_ = true;
    numbers_.erase(own_number());  // a signal would end any call of the executor
  }
  options_.drive([this] {
    if (unwatched_ || request_waits()) return true;
    const std::lock_guard lock(mutex_);
    return stopped_;
  });
  const std::lock_guard lock(mutex_);
  reader_drives_ = false;
  unwatched_ = false;
  numbers_.insert(own_number());
  std::uint64_t count = 0;
  [[maybe_unused]] const auto drained = ::read(wake_.get(), &count, sizeof count);
}

/// Call it with the lock held.
void WorkerPool::was_not_alone() { alone_ -= std::min(alone_, kOfOneOther); }

void WorkerPool::request_begins(bool only_executor) {
  std::unique_lock lock(mutex_);
  numbers_.erase(own_number());
  ++at_work_;
  if (at_work_ > 1) was_not_alone();
  if (--reading_ > 0) return;
  nobody_reads_ = true;
  if (!only_executor || at_work_ > 1) call_one(lock);
}

/// If requests overlap, the kernel wakes one of several readers. Calling one each time would cost one more wake.
WorkerPool::Next WorkerPool::request_ends() {
  const std::lock_guard lock(mutex_);
  --at_work_;
  refused_ = false;
  if (at_work_ > 0) {
    was_not_alone();
  } else {
    alone_ = std::min(alone_ + 1, kMostAlone);
  }
  const unsigned enough = alone_ >= kManyAlone ? 1 : options_.kept;
  if (!stopped_ && reading_ >= enough) return idle_.size() + reading_ < options_.kept ? Next::kKeep : Next::kEnd;
  ++reading_;
  nobody_reads_ = false;
  numbers_.insert(own_number());
  return Next::kRead;
}

void WorkerPool::need_reader() {
  if (!nobody_reads_) return;
  std::unique_lock lock(mutex_);
  if (nobody_reads_) call_one(lock);
}

std::size_t WorkerPool::poll() {
  if (nobody_reads_ && request_waits()) need_reader();
  return 0;
}

/// A request wakes the executor only if its reader drives, or if no worker reads it and a worker can be called. While a
/// request is alone, nothing changes from sleep to sleep.
bool WorkerPool::prepare_to_wait() {
  bool wanted = reader_drives_;
  if (nobody_reads_) {
    const std::lock_guard lock(mutex_);
    wanted = wanted || (nobody_reads_ && can_call());
  }
  if (wanted == watching_) return true;
  epoll_event event{};
  event.events = EPOLLIN;
  const int done = ::epoll_ctl(watch_.get(), wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, options_.device, &event);
  watching_ = wanted && done == 0;
  if (!wanted || watching_) return true;
  need_reader();
  unwatched_ = reader_drives_.load();
  return !unwatched_;
}

void WorkerPool::interrupt() {
  const std::lock_guard lock(mutex_);
  for (const pid_t one : numbers_) ::syscall(SYS_tgkill, ::getpid(), one, SIGUSR1);
  const std::uint64_t one = 1;
  if (reader_drives_) std::ignore = ::write(wake_.get(), &one, sizeof one);
}

bool WorkerPool::wait_for_end(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (workers_ > 0) one_less_.wait_for(lock, limit);
  return workers_ == 0;
}

unsigned WorkerPool::reading() const {
  const std::lock_guard lock(mutex_);
  return reading_;
}

unsigned WorkerPool::workers() const {
  const std::lock_guard lock(mutex_);
  return workers_;
}

unsigned WorkerPool::at_work() const {
  const std::lock_guard lock(mutex_);
  return at_work_;
}

unsigned WorkerPool::kept() const {
  const std::lock_guard lock(mutex_);
  return static_cast<unsigned>(idle_.size());
}

}  // namespace spate::fuse
