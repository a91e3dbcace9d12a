// SPDX-License-Identifier: Apache-2.0
// Driver: lets many threads use one executor by blocking calls. Whoever waits drives it; the library owns no thread but a
// slow one that keeps the session alive.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "job/executor.h"
#include "job/gate.h"

namespace spate::client {

/// Thread-safe. The calling thread runs the executor until its own task has ended; others that call meanwhile hand their
/// task over and sleep, and one of them goes on driving when the first is done. Everything that lives on the executor is
/// touched from within run() only.
class Driver {
 public:
  /// `keep_alive_period`: how often a thread of the driver's own drives the executor when nobody else does; 0 = never.
  Driver(job::Executor& executor, Duration keep_alive_period);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// Runs `make()`, a function that returns a Task<T>, on the executor and returns what the task does. The function is called
  /// on the driving thread; it and what it refers to outlive the call.
  template <typename Make>
  auto run(Make&& make) {
    using T = typename std::invoke_result_t<Make&>::Value;
    Call<T, std::remove_reference_t<Make>> call{make};
    drive_until_done(call);
    if constexpr (!std::is_void_v<T>) return *std::move(call.value);
  }

 private:
  struct CallBase {
    virtual job::Task<void> run() = 0;
    std::condition_variable wake;
    bool done = false;       // guarded by mutex_ for other threads; set by the driving one
    CallBase* next = nullptr;  // in the list of sleepers

   protected:
    ~CallBase() = default;
  };
  template <typename T, typename Make>
  struct Call final : CallBase {
    explicit Call(Make& m) : make(m) {}
    job::Task<void> run() override {
      if constexpr (std::is_void_v<T>) {
        co_await make();
      } else {
        value.emplace(co_await make());
      }
    }
    Make& make;
    std::optional<std::conditional_t<std::is_void_v<T>, Unit, T>> value;
  };

  void drive_until_done(CallBase& call);
  void drive(CallBase& call);
  job::Task<void> finish(CallBase& call);
  void submit(CallBase& call);
  void keep_alive(Duration period);

  job::Executor& executor_;
  job::Gate gate_;
  std::mutex mutex_;
  std::condition_variable idle_;
  bool driving_ = false;        // guarded by mutex_
  CallBase* sleepers_ = nullptr;  // guarded by mutex_: threads that wait for their task or for their turn to drive
  bool stopping_ = false;       // guarded by mutex_
  std::thread keeper_;
};

}  // namespace spate::client
