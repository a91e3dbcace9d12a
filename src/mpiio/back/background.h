// SPDX-License-Identifier: Apache-2.0
// Background: threads that make nonblocking accesses while the program computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace spate::mpiio {

/// Life cycle: the first run() starts a thread, further ones more, up to kMostThreads. stop() lets them end all that
/// was given to them. Thread-safe. Jobs do not call MPI unless the program has MPI_THREAD_MULTIPLE.
class Background {
 public:
  static constexpr std::size_t kMostThreads = 8;

  /// The process's only one. Never destroyed: a program may exit without MPI_Finalize.
  static Background& instance();

  /// Runs `job` soon, side by side with others. Where no thread can be made, before it returns.
  void run(std::function<void()> job);
  /// Waits for all jobs and ends the threads.
  void stop();

 private:
  Background() = default;
  bool add_thread();
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace spate::mpiio
