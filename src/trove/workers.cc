// SPDX-License-Identifier: Apache-2.0
#include "trove/workers.h"

#include <pthread.h>

#include <csignal>

#include "base/check.h"

namespace spate::trove {

Workers::Workers(const std::string& name, unsigned threads) {
  SPATE_CHECK(threads >= 1);
  // The program's own threads handle signals; the workers block them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { serve(); });
    const std::string full = (name + "-" + std::to_string(i)).substr(0, 15);
    pthread_setname_np(threads_.back().native_handle(), full.c_str());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
  }
  wake_.notify_one();
}

void Workers::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (queue_.empty() && !ending_) wake_.wait(lock);
    if (queue_.empty()) return;
    UniqueFunction<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = {};
    lock.lock();
  }
}

}  // namespace spate::trove
