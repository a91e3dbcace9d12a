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

namespace spate::trove {

/// Thread-safe. The threads begin work in the order of run(). The destructor waits until all work is done.
class Workers {
 public:
  /// `threads` >= 1, named "<name>-0", ... (15 characters at most).
  Workers(const std::string& name, unsigned threads);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  void run(UniqueFunction<void()> work);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<UniqueFunction<void()>> queue_;  // guarded by mutex_
  bool ending_ = false;                       // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace spate::trove
