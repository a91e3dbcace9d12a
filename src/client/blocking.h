// SPDX-License-Identifier: Apache-2.0
// Driver: lets many threads use one executor.
// A thread makes blocking calls, or begins a call now and waits for it later.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "job/executor.h"
#include "job/gate.h"

namespace spate::client {

/// Which thread drives the executor while no thread waits for anything.
enum class ProgressMode : std::uint8_t {
  kNone,   // no thread: for short-lived programs that are always inside a call
  kSlow,   // a thread drives it for a moment once a second, which keeps the session alive
  kReady,  // a thread drives it while no other thread does, so that requests of servers are answered at once
  kAlways  // a thread drives it all the time, so that started operations continue by themselves
};

/// Lets any number of threads use one executor. The calling thread runs the executor until its own task has ended.
/// Other threads that call in the meantime hand over their tasks and sleep. When the first task is done, one of these
/// threads continues to drive. Thread-safe; but only tasks may touch objects of the executor.
///
/// Life cycle: construct -> calls -> destroyed. Every call has returned, and every Started is done and destroyed,
/// before the destructor, which only ends the progress thread. The executor outlives the driver. Not movable.
class Driver {
  struct Sleeper {
    std::condition_variable wake;
    Sleeper* next = nullptr;
  };
  struct CallBase {
    virtual job::Task<void> run() = 0;
    virtual ~CallBase() = default;
    bool done = false;           // set by the driving thread; guarded by mutex_ for the others
    Sleeper* sleeper = nullptr;  // the thread that waits for this task; guarded by mutex_
  };

 public:
  Driver(job::Executor& executor, ProgressMode progress_mode);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// Runs `make()`, a function that returns a Task<T>, on the executor and returns the task's result. The driving
  /// thread calls the function. The function and everything that it refers to outlive the call.
  template <typename Make>
  auto run(Make&& make) {
    using T = typename std::invoke_result_t<Make&>::Value;
    Call<T, std::remove_reference_t<Make>&> call(make);
    const std::array<CallBase*, 1> all{&call};
    drive_until_one_is_done(all, true);
    if constexpr (!std::is_void_v<T>) return *std::move(call.value);
  }

  /// A task that was begun by start(). Destroyed when it is done, and before the driver.
  class Started {
   public:
    virtual ~Started() = default;

   private:
    friend class Driver;
    virtual CallBase& call() = 0;
  };
  template <typename T>
  class StartedTask : public Started {
   public:
    /// The task's result. Call it only when the task is done.
    virtual T& value() = 0;
  };

  /// The calling thread has no call to make, and drives in the meantime: until `over()` returns true or another thread
  /// makes a call. Returns at once if another thread drives. The calling thread calls `over` between any two steps, and
  /// before each sleep. What makes it true also ends a sleep of the executor.
  void drive_until(const std::function<bool()>& over);

  /// Begins `make()` and keeps the function with the task. The task continues while any thread drives the executor.
  template <typename Make>
  auto start(Make make) {
    using T = typename std::invoke_result_t<Make&>::Value;
    auto started = std::make_unique<KeptCall<T, Make>>(std::move(make));
    begin(started->call());
    return std::unique_ptr<StartedTask<T>>(std::move(started));
  }
  /// Runs the executor without sleeping, unless another thread drives it. True when the task is done.
  bool test(Started& started);
  /// Whether the task is done. Does not run the executor.
  bool is_done(Started& started);
  /// Waits until at least one of the tasks is done. Returns the index of one that is done.
  std::size_t wait_any(std::span<Started* const> started);
  void wait(Started& started) {
    Started* const one = &started;
    wait_any(std::span(&one, 1));
  }

 private:
  template <typename T, typename Make>
  struct Call final : CallBase {
    explicit Call(Make m) : make(std::forward<Make>(m)) {}
    job::Task<void> run() override {
      if constexpr (std::is_void_v<T>) {
        co_await make();
      } else {
        value.emplace(co_await make());
      }
    }
    Make make;
    std::optional<std::conditional_t<std::is_void_v<T>, Unit, T>> value;
  };
  template <typename T, typename Make>
  class KeptCall final : public StartedTask<T> {
   public:
    explicit KeptCall(Make make) : call_(std::move(make)) {}
    CallBase& call() override { return call_; }
    T& value() override { return *call_.value; }

   private:
    Call<T, Make> call_;
  };

  void begin(CallBase& call);
  std::size_t drive_until_one_is_done(std::span<CallBase* const> calls, bool begin_first);
  void drive(std::span<CallBase* const> calls);
  job::Task<void> finish(CallBase& call);
  void submit(CallBase& call);
  bool sleep_until_my_turn(std::unique_lock<std::mutex>& lock, std::span<CallBase* const> calls);
  void stop_driving();
  void drive_for_nobody(std::unique_lock<std::mutex>& lock, const std::function<bool()>& over);
  void keep_alive();
  void drive_when_idle();
  void drive_always();

  job::Executor& executor_;
  const ProgressMode kind_;
  job::Gate gate_;
  std::mutex mutex_;
  std::condition_variable idle_;
  bool driving_ = false;         // guarded by mutex_
  std::uint64_t drives_ = 0;     // how often a thread has begun to drive; guarded by mutex_
  bool rests_ = false;           // the progress thread sleeps until the present driver stops; guarded by mutex_
  Sleeper* sleepers_ = nullptr;  // guarded by mutex_: threads that wait for their task or for their turn to drive
  bool stopping_ = false;        // guarded by mutex_
  std::thread progress_thread_;
};

}  // namespace spate::client
