// SPDX-License-Identifier: Apache-2.0
// Executor: the loop of a process. It tests its sources (network, storage), fires timers, resumes coroutines, and waits
// for all of them in one sleep.
#pragma once

#include <atomic>
#include <coroutine>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "base/unique_function.h"
#include "job/polling.h"
#include "job/stop.h"
#include "job/task.h"

namespace spate::job {

class Executor;

/// An asynchronous interface that completes operations: a bmi context or a trove context. The executor tests it, and
/// calls all functions on its own thread.
class Source {
 public:
  virtual ~Source() = default;
  /// Collects the completed operations and schedules the coroutines that wait for them. Never blocks. Returns the
  /// number of operations.
  virtual std::size_t poll() = 0;
  /// A descriptor that becomes readable when poll() may find something; -1 if there is none (a simulated source).
  virtual int wait_descriptor() const = 0;
  /// The executor calls it before it sleeps on the descriptor. Returns false if poll() would find something already.
  virtual bool prepare_to_wait() = 0;

  /// A source may bring a sleep of its own, so that the executor needs no epoll set around it. wake_by() returns
  /// whether the source has one. If it has, `fd` becoming readable ends that sleep from now on, until stop_wake_by().
  virtual bool wake_by(int /*fd*/) { return false; }
  virtual void stop_wake_by(int /*fd*/) {}
  /// Sleeps for at most `timeout` (negative: without limit), unless there is something to poll. The executor calls
  /// poll() next.
  virtual void wait(Duration /*timeout*/) {}
  /// Does now what the source has collected to do in one step, since the current turn is about to take long.
  virtual void flush() {}
  /// The executor keeps waking though poll() finds nothing. The descriptor may still be readable because of a
  /// completion that was collected before its signal came. The next prepare_to_wait() must clear the descriptor, even
  /// if nothing seems to be in flight.
  virtual void woken_for_nothing() {}
};

struct ExecutorOptions {
  /// Chooses the order in which ready coroutines run. null: first come, first served. For the simulation. Not owned.
  Random* shuffle = nullptr;
  /// How long to poll before a sleep, as long as polling pays. Other threads on the processor run meanwhile. 0: sleep
  /// at once, as most servers do, which share their host with computation.
  Duration spin = Duration(0);
};

/// One thread at a time runs it: the one that calls run(), turn() or step(). Coroutines of one executor never run in
/// parallel. Other threads may call post(), wake() and request_exit() only. Life cycle: construct -> add_source() ->
/// run() -> all gates closed, all sources removed -> destroyed. The executor outlives everything that is scheduled on
/// it.
class Executor {
 public:
  using Options = ExecutorOptions;

  explicit Executor(Clock& clock, Options options = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();

  /// The executor tests sources in the order of their addition. Remove a source before it is destroyed.
  void add_source(Source& source);
  void remove_source(Source& source);

  Clock& clock() const { return clock_; }
  MonoTime now() const { return clock_.now(); }

  /// Resumes `handle` soon, in this turn or the next one.
  void schedule(std::coroutine_handle<> handle) { ready_.push_back(handle); }
  /// Calls `function` in a later turn. Thread-safe; the executor may be destroyed as soon as the function has run.
  void post(UniqueFunction<void()> function);
  /// Calls `function` once, at the end of this turn, after every ready coroutine has run: for batching.
  void at_turn_end(UniqueFunction<void()> function) { turn_end_.push_back(std::move(function)); }
  /// Ends a sleep early. Thread-safe.
  void wake();
  /// Makes all sources do at once what they would do at the end of the turn. Call it before work that takes longer than
  /// a message does (guess: 20 us).
  void flush_sources() {
    for (Source* source : sources_) source->flush();
  }

  /// Drives the loop until `task` has ended and returns its value.
  template <typename T>
  T run(Task<T> task);
  /// Drives the loop until request_exit(), which any thread may call.
  void run();
  void request_exit();

  /// One turn without a sleep: ready coroutines, sources, due timers. Returns whether it did anything. The simulation
  /// calls this.
  bool step();
  /// As step(), with a sleep before it unless there is work already. This drives an executor in real time.
  void turn() {
    const bool slept = idle();
    if (slept) sleep_until_event();
    const bool did = step();
    if (slept) note_wake(did);
  }
  /// Blocks until a source, a timer or another thread has something for the next step. Spurious returns are possible.
  /// Polls before it sleeps, as ExecutorOptions::spin says.
  void sleep_until_event();
  /// The same without polling, for a caller that expects no event soon.
  void sleep_at_once();
  /// When the next timer is due; never() without one.
  MonoTime next_timer() const;

  /// Suspends the calling coroutine until `when`, or until stopped. Yields kOk, or the token's reason.
  auto sleep_until(MonoTime when, StopToken stop = {}) { return SleepAwaiter(*this, when, stop); }
  auto sleep(Duration span, StopToken stop = {}) { return SleepAwaiter(*this, now() + span, stop); }
  /// Lets other ready coroutines run first, and tests the sources.
  auto yield() {
    struct Awaiter {
      Executor& executor;
      bool await_ready() { return false; }
      void await_suspend(std::coroutine_handle<> h) { executor.yielded_.push_back(h); }
      void await_resume() {}
    };
    return Awaiter{*this};
  }

  /// A timer that calls `action(argument)` when due. Pinned; destroying or disarming it cancels it.
  class Timer {
   public:
    explicit Timer(Executor& executor) : executor_(executor) {}
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    ~Timer() { disarm(); }
    void arm(MonoTime when, void (*action)(void*), void* argument);
    void disarm();
    bool armed() const { return armed_; }

   private:
    friend class Executor;
    Executor& executor_;
    MonoTime when_;
    std::uint64_t order_ = 0;  // ties are fired in the order of arming: determinism
    bool armed_ = false;
    void (*action_)(void*) = nullptr;
    void* argument_ = nullptr;
  };

 private:
  class SleepAwaiter {
   public:
    SleepAwaiter(Executor& executor, MonoTime when, StopToken stop)
        : executor_(executor), when_(when), stop_(stop), timer_(executor) {}
    bool await_ready() const { return stop_.stopped(); }
    void await_suspend(std::coroutine_handle<> handle);
    Result<void> await_resume() { return stop_.stopped() ? Result<void>(stop_.reason()) : Result<void>(); }

   private:
    void fire();
    Executor& executor_;
    MonoTime when_;
    StopToken stop_;
    Timer timer_;
    StopCallback on_stop_;
    std::coroutine_handle<> handle_;
  };

  struct TimerOrder {
    bool operator()(const Timer* a, const Timer* b) const {
      return a->when_ != b->when_ ? a->when_ < b->when_ : a->order_ < b->order_;
    }
  };

  bool idle() const {
    return ready_.empty() && yielded_.empty() && turn_end_.empty() && !has_posted_.load(std::memory_order_acquire);
  }
  bool spin();
  enum class Polled : std::uint8_t { kFound, kInVain, kCrowded };
  Polled poll_for(Duration time);
  void arm_timer();
  void note_wake(bool did_something);
  void sleep_on_own_set();
  void watch(Source& source);
  void stop_watching(Source& source);
  void choose_sleeper();
  std::coroutine_handle<> take_ready();
  bool run_ready();
  bool run_posted();
  bool run_turn_end();
  bool fire_timers();

  Clock& clock_;
  Options options_;
  std::vector<Source*> sources_;
  Source* sleeper_ = nullptr;  // the source whose own sleep this executor uses, or null
  std::deque<std::coroutine_handle<>> ready_;
  std::vector<std::coroutine_handle<>> yielded_;  // ready in the next turn
  std::vector<UniqueFunction<void()>> turn_end_;
  std::set<Timer*, TimerOrder> timers_;
  std::uint64_t next_order_ = 0;
  UniqueFd wake_fd_;
  UniqueFd timer_fd_;
  MonoTime armed_for_ = MonoTime::never();  // timer_fd_; never later than the next timer when asleep
  UniqueFd epoll_fd_;               // over wake_fd_, timer_fd_ and the sources' descriptors, while there is no sleeper_
  std::atomic<bool> woken_{false};  // wake_fd_ was written to
  unsigned wakes_for_nothing_ = 0;  // in a row
  Polling polling_;

  std::mutex posted_mutex_;
  std::vector<UniqueFunction<void()>> posted_;  // guarded by posted_mutex_
  std::atomic<bool> has_posted_{false};
  std::atomic<unsigned> posting_{0};  // threads inside post()
  std::atomic<bool> exit_requested_{false};
};

template <typename T>
T Executor::run(Task<T> task) {
  bool done = false;
  std::optional<std::conditional_t<std::is_void_v<T>, Unit, T>> value;
  struct Starter {  // an eager coroutine that ends by itself
    struct promise_type {
      Starter get_return_object() { return {}; }
      std::suspend_never initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() {}
      void unhandled_exception() { std::terminate(); }
    };
    static Starter drive(Task<T> t, decltype(value)& out, bool& finished) {
      if constexpr (std::is_void_v<T>) {
        co_await std::move(t);
        out.emplace();
      } else {
        out.emplace(co_await std::move(t));
      }
      finished = true;
    }
  };
  Starter::drive(std::move(task), value, done);
  while (!done) {
    turn();
  }
  if constexpr (!std::is_void_v<T>) return *std::move(value);
}

}  // namespace spate::job
