// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/background.h"

#include <csignal>
#include <system_error>
#include <utility>

namespace spate::mpiio {

Background& Background::instance() {
  constexpr std::size_t kMostThreads = 8;
  static auto& one = *new Background(kMostThreads);
  return one;
}

/// The thread blocks all signals, because they are for the program's threads.
bool Background::add_thread() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool added = true;
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    added = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return added;
}

void Background::run(std::function<void()> job) {
  std::unique_lock lock(mutex_);
  if (idle_ <= jobs_.size() && threads_.size() < most_threads_ && !add_thread() && threads_.empty()) {
    lock.unlock();
    job();
    return;
  }
  jobs_.push_back(std::move(job));
  wake_.notify_one();
}

void Background::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    --idle_;
    if (jobs_.empty()) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
}

void Background::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_all();
  std::vector<std::thread> threads = std::exchange(threads_, {});
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  lock.lock();
  stopping_ = false;
}

}  // namespace spate::mpiio
