// SPDX-License-Identifier: Apache-2.0
#include "base/workers.h"

#include <pthread.h>

#include <csignal>

#include "base/check.h"

namespace spate {

Workers::Workers(std::string name, unsigned threads) : name_(std::move(name)), most_threads_(threads) {
  SPATE_CHECK(threads >= 1);
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::run(UniqueFunction<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    if (queue_.size() > idle_ && threads_.size() < most_threads_) start_thread();
  }
  wake_.notify_one();
}

void Workers::start_thread() {
  const std::string name = (name_ + "-" + std::to_string(threads_.size())).substr(0, 15);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  threads_.emplace_back([this] { serve(); });
  pthread_setname_np(threads_.back().native_handle(), name.c_str());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Workers::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    while (queue_.empty() && !ending_) wake_.wait(lock);
    --idle_;
    if (queue_.empty()) return;
    UniqueFunction<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = {};
    lock.lock();
  }
}

}  // namespace spate
