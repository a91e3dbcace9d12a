// SPDX-License-Identifier: Apache-2.0
// Offload: runs system calls that may wait for a device on its own threads. Coroutines of the executor await them.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/unique_function.h"
#include "job/executor.h"

namespace spate::client {

/// The first call of run() starts the threads. Await it on the executor only. All work must have ended before the
/// destructor.
class Offload {
 public:
  explicit Offload(job::Executor& executor) : executor_(executor) {}
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;
  ~Offload();

  class Awaiter {
   public:
    Awaiter(Offload& owner, UniqueFunction<void()> work) : owner_(owner), work_(std::move(work)) {}
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
      handle_ = handle;
      owner_.add(*this);
    }
    void await_resume() {}

   private:
    friend class Offload;
    Offload& owner_;
    UniqueFunction<void()> work_;
    std::coroutine_handle<> handle_;
  };
  /// Ends when one of the threads has run `work`.
  Awaiter run(UniqueFunction<void()> work) { return Awaiter(*this, std::move(work)); }

 private:
  static constexpr std::size_t kThreads = 4;
  void add(Awaiter& work);
  void serve();

  job::Executor& executor_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Awaiter*> queue_;  // guarded by mutex_
  std::size_t idle_ = 0;        // guarded by mutex_
  bool ending_ = false;         // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace spate::client
