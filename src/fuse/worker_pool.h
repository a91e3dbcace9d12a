// SPDX-License-Identifier: Apache-2.0
// WorkerPool: decides which worker threads wait for the kernel's requests, and which are kept in reserve.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "base/unique_fd.h"
#include "job/executor.h"
#include "job/polling.h"

namespace spate::fuse {

struct WorkerPoolOptions {
  int device = -1;      // /dev/fuse; readable when a request waits; not owned
  unsigned kept = 4;    // threads that stay when no request comes, waiting for the kernel or in reserve
  unsigned most = 256;  // the most threads, at least `kept`; further requests wait in the kernel
  /// How long a thread polls for the next request before it sleeps, if it is the only reader and that pays; 0: never.
  Duration busy_poll = Duration(0);
  /// Drives the client's executor, of which the WorkerPool is a source, until the function returns true. May return
  /// earlier. Null: nobody drives while a thread waits for the kernel's next request.
  std::function<void(const std::function<bool()>& over)> drive = nullptr;
};

/// A program that waits for each of its calls needs one worker. That worker has everything in its cache and finds the
/// next request without being woken, while the kernel would wake its readers in turn. So the worker of a lone request
/// stays the only one awake. Another worker is called to read, because the kernel's interrupts and other programs'
/// requests must be read,
///   - when the executor finds, while it polls, that a request waits; while it sleeps, such a request wakes it, or
///   - at once, if the request is not alone or may wait for something other than the executor.
/// A reader that is alone also drives the executor while it waits, unless another thread drives when its wait begins.
/// If no reader drives, a message of a server, such as the recall of a lease, waits until the driver's own thread looks
/// (some milliseconds).
/// Thread-safe; the executor calls poll() and prepare_to_wait(). A worker: work_begins() -> { wait_until_called() ->
/// wait_for_request() -> request_begins() -> request_ends() } -> work_ends().
class WorkerPool final : public job::Source {
 public:
  /// `start` begins a thread, which reads first if `reads` is true, and which calls work_begins() and, as its last act,
  /// work_ends(). It returns false if the system gives no thread; the pool does with fewer then. `start` may be called
  /// with any lock held. Life cycle: construct -> start() -> stop() ->
  /// wait_for_end() returns true -> destroyed; after stop(), resume() and start() begin again. While it is a source of
  /// the executor, the executor calls it, so it is removed from there first.
  WorkerPool(const WorkerPoolOptions& options, std::function<bool(bool reads)> start);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// What a worker does next.
  enum class Next {
    kRead,  // read a request of the kernel
    kKeep,  // wait until it is called
    kEnd,   // end, because there are enough threads
  };

  /// Starts the kept threads, of which one reads. False: not even that one could be started.
  [[nodiscard]] bool start();
  /// Ends the kept threads, and calls no thread any more until resume().
  void stop();
  void resume();

  void work_begins(bool reads);
  void work_ends(Next did);
  /// The calling thread waits until it must read (true) or must end (false).
  bool wait_until_called();
  /// Call it before reading the kernel's request. If the caller is the only reader, it polls for a while without
  /// sleeping, and then drives the executor until a request comes. The read may block nonetheless.
  void wait_for_request();
  /// `only_executor`: the request waits only for the client's executor, unless need_reader() is called before.
  void request_begins(bool only_executor);
  Next request_ends();
  /// Busy workers may wait for something that another worker must do first, so a reader is needed.
  void need_reader();

  /// Wakes all readers, by SIGUSR1 unless they drive. A reader that is just about to sleep misses it, so call it again.
  void interrupt();
  /// Waits until no worker is left, at most `limit`. True: none is left.
  bool wait_for_end(std::chrono::milliseconds limit);
  /// The number of workers that read or are about to.
  unsigned reading() const;
  unsigned kept() const;
  /// The number of threads, whatever they do.
  unsigned workers() const;
  /// The number of workers that have a request.
  unsigned at_work() const;

  std::size_t poll() override;
  int wait_descriptor() const override { return watch_.get(); }
  bool prepare_to_wait() override;

 private:
  struct IdleWorker {
    std::condition_variable wake;
    bool called = false;
  };
  void was_not_alone();
  bool can_call() const;
  void call_one(std::unique_lock<std::mutex>& lock);
  bool request_waits() const;
  bool poll_for_request();
  void drive_until_request();

  const WorkerPoolOptions options_;
  const std::function<bool(bool reads)> start_;
  const UniqueFd watch_;   // an epoll set of wake_, and of the device while a request must wake the executor
  const UniqueFd wake_;    // an eventfd; ends the sleep of a reader that drives
  bool watching_ = false;  // whether the device is in watch_; only the executor uses it
  mutable std::mutex mutex_;
  std::condition_variable one_less_;
  std::vector<IdleWorker*> idle_;  // guarded by mutex_; the one that came last is called first
  unsigned workers_ = 0;           // guarded by mutex_, as are all members below
  unsigned reading_ = 0;           // workers that wait for the kernel, or that were called to do so
  unsigned at_work_ = 0;           // workers that have a request
  unsigned alone_ = 0;             // how strongly recent requests suggest that no other reader is needed
  bool stopped_ = false;
  bool refused_ = false;                   // the system gave no thread; it is asked again when a request has ended
  bool polls_ = false;                     // one of the readers polls
  job::Polling polling_;                   // only the thread that polls uses it
  std::set<pid_t> numbers_;                // thread ids of the readers
  std::atomic<bool> nobody_reads_{false};  // true while requests are at work and nobody reads; written with mutex_ held
  std::atomic<bool> reader_drives_{false};  // true while a reader may be driving; written with mutex_ held
  std::atomic<bool> unwatched_{false};      // the driving reader could not have the device in watch_, so it must read
};

}  // namespace spate::fuse
