// SPDX-License-Identifier: Apache-2.0
// Background: threads that run nonblocking accesses while the program computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace spate::mpiio {

/// Life cycle: the first run() starts a thread, later ones start more, up to kMostThreads. stop() waits for all jobs.
/// Thread-safe. Jobs may call MPI only if the program has MPI_THREAD_MULTIPLE.
class Background {
 public:
  static constexpr std::size_t kMostThreads = 8;

  /// The only instance of the process. It is never destroyed, because a program may exit without MPI_Finalize.
  static Background& instance();

  /// Runs `job` soon, in parallel with others. If no thread can be started, it runs the job before it returns.
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
