// SPDX-License-Identifier: Apache-2.0
// Workers: a few named threads for system calls that may block.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_function.h"

namespace spate {

/// Thread-safe. A thread starts when there is work and no thread is idle. The threads block all signals, which are for
/// the program's own threads, and begin work in the order of run(). Threads never end before the destructor.
///
/// The destructor waits, without a limit, until all work is done, also work that no thread has begun. Once it has begun
/// nobody may call run(), not even the work itself. It must not run on one of these threads.
class Workers {
 public:
  /// At most `threads` >= 1, named "<name>-0", ... (15 characters at most).
  Workers(std::string name, unsigned threads);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  /// Never waits for other work; the queue has no limit. `work` must not throw. It is destroyed on the thread that ran
  /// it. It may call run().
  void run(UniqueFunction<void()> work);

 private:
  void start_thread();
  void serve();

  const std::string name_;
  const unsigned most_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<UniqueFunction<void()>> queue_;  // guarded by mutex_
  std::size_t idle_ = 0;                      // guarded by mutex_
  bool ending_ = false;                       // guarded by mutex_
  std::vector<std::thread> threads_;          // guarded by mutex_ until ending_
};

}  // namespace spate
