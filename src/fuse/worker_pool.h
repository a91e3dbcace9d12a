// SPDX-License-Identifier: Apache-2.0
// WorkerPool: which of the worker threads wait for the kernel's requests, and which are kept for when one more is
// needed.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "job/executor.h"
#include "job/polling.h"

namespace spate::fuse {

struct WorkerPoolOptions {
  int device = -1;      // /dev/fuse; readable when a request waits. Not owned
  unsigned kept = 4;    // threads that wait for the kernel, or for being needed, while nothing happens
  unsigned most = 256;  // threads in all, not fewer than `kept`; more requests than that wait in the kernel
  /// How long a thread that is alone goes on asking for the next request before it sleeps, as long as that pays; 0: not
  /// at all.
  Duration busy_poll = Duration(0);
};

/// A program that waits for each of its calls needs one worker, which has all that it uses at hand, and finds the next
/// request without being woken; the kernel would wake its readers by turns. So the worker of a request that is alone
/// stays the only one awake, and another reads (the kernel's interrupts must be read, and other programs' requests)
///   - as soon as the executor is to sleep: the answer takes long,
///   - as soon as the executor, while it polls, finds that a request waits, or
///   - at once, if the request is no lone one or may wait for something that is not the executor's.
/// Thread-safe; poll() and prepare_to_wait() are the executor's.
/// A worker: work_begins() -> { wait_until_called() -> wait_for_request() -> request_begins() -> request_ends() } ->
/// work_ends().
class WorkerPool final : public job::Source {
 public:
  /// `start` begins a thread that reads if it is told so; legal with any lock held.
  WorkerPool(const WorkerPoolOptions& options, std::function<void(bool reads)> start)
      : options_(options), start_(std::move(start)) {}
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// What a worker does next.
  enum class Next {
    kRead,  // a request of the kernel
    kKeep,  // nothing, until it is called
    kEnd,   // there are enough
  };

  /// Starts what is kept, of which one reads.
  void start();
  /// Those that are kept end, and nobody is called any more; until resume().
  void stop();
  void resume();

  void work_begins(bool reads);
  void work_ends(Next did);
  /// The calling thread is kept until it is to read (true) or to end.
  bool wait_until_called();
  /// Before the kernel's request is read: the one reader looks for it a while without sleeping. The read may block
  /// nonetheless.
  void wait_for_request();
  /// `only_executor`: it waits for nothing but the client's executor, unless need_reader() is called before.
  void request_begins(bool only_executor);
  Next request_ends();
  /// The busy workers may wait for something that another worker has to do first.
  void need_reader();

  /// Ends the sleep of all that read, by SIGUSR1. One that is about to sleep misses it, and is to be told again.
  void interrupt();
  /// True: no worker is left; waits for it at most `limit`.
  bool wait_for_end(std::chrono::milliseconds limit);
  /// Workers that read or are about to.
  unsigned reading() const;
  unsigned kept() const;
  /// Threads there are, whatever they do.
  unsigned workers() const;
  /// Those that have a request.
  unsigned at_work() const;

  std::size_t poll() override;
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override;

 private:
  struct Kept {
    std::condition_variable wake;
    bool called = false;
  };
  void was_not_alone();
  void call_one(std::unique_lock<std::mutex>& lock);
  bool request_waits() const;

  const WorkerPoolOptions options_;
  const std::function<void(bool reads)> start_;
  mutable std::mutex mutex_;
  std::condition_variable one_less_;
  std::vector<Kept*> kept_;  // guarded by mutex_: the last that came is the first to be called
  unsigned workers_ = 0;     // guarded by mutex_, as all below
  unsigned reading_ = 0;     // that wait for the kernel, or were called to
  unsigned at_work_ = 0;     // that have a request
  unsigned alone_ = 0;       // how far requests of late have needed no other reader
  bool stopped_ = false;
  bool polls_ = false;                     // one of them looks without sleeping
  job::Polling polling_;                   // touched by the one who polls
  std::set<pid_t> numbers_;                // of those that read
  std::atomic<bool> nobody_reads_{false};  // while requests are at work; written under mutex_
  std::atomic<bool> slept_{false};         // the executor, since a request began
};

}  // namespace spate::fuse
