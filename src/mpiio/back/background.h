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

/// Life cycle: the first run() starts a thread, later ones start more, up to a limit. stop() waits for all jobs.
/// Thread-safe. Jobs may call MPI only if the program has MPI_THREAD_MULTIPLE. With one thread, jobs run in the order
/// in which they were given.
class Background {
 public:
  explicit Background(std::size_t most_threads) : most_threads_(most_threads) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  /// Waits for all jobs and ends the threads.
  ~Background() { stop(); }

  /// The threads for accesses that wait for nothing but servers. It is never destroyed, because a program may exit
  /// without MPI_Finalize.
  static Background& instance();

  /// Runs `job` soon, in parallel with others. If no thread can be started, it runs the job before it returns.
  void run(std::function<void()> job);
  /// Waits for all jobs and ends the threads.
  void stop();

 private:
  bool add_thread();
  void work();

  const std::size_t most_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace spate::mpiio
