// SPDX-License-Identifier: Apache-2.0
#include "client/bypass/offload.h"

#include <pthread.h>
#include <signal.h>

namespace spate::client {
namespace {

/// The thread blocks all signals, because they are for the program's threads.
std::thread start(void (*serve)(void*), void* self) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([serve, self] {
    pthread_setname_np(pthread_self(), "spate-bypass");
    serve(self);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Offload::~Offload() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Offload::add(Awaiter& work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(&work);
  if (queue_.size() > idle_ && threads_.size() < kThreads) {
    threads_.push_back(start([](void* self) { static_cast<Offload*>(self)->serve(); }, this));
  }
  wake_.notify_one();
}

void Offload::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    while (queue_.empty() && !ending_) wake_.wait(lock);
    --idle_;
    if (queue_.empty()) return;
    Awaiter* const work = queue_.front();
    queue_.pop_front();
    lock.unlock();
    work->work_();
    const std::coroutine_handle<> handle = work->handle_;
    executor_.post([this, handle] { executor_.schedule(handle); });  // `work` may be gone from here on
    lock.lock();
  }
}

}  // namespace spate::client
