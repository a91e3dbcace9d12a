// SPDX-License-Identifier: Apache-2.0
// Gate: counts the tasks that run, so that a stop can wait for them. spawn() runs a task behind a gate.
#pragma once

#include <coroutine>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "job/executor.h"
#include "job/task.h"

namespace spate::job {

/// Not thread-safe: one executor. Pinned. Life cycle: open -> close() awaited once -> closed and empty -> destroyed.
/// close() waits for every pass, and so for every task that spawn() started behind this gate.
class Gate {
 public:
  explicit Gate(Executor& executor) : executor_(executor) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { SPATE_CHECK(count_ == 0); }

  /// The gate does not close while a pass lives. Move-only.
  class Pass {
   public:
    Pass() = default;
    explicit Pass(Gate& gate) : gate_(&gate) { ++gate.count_; }
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->leave();
    }

   private:
    Gate* gate_ = nullptr;
  };

  bool closed() const { return closed_; }
  std::size_t count() const { return count_; }

  /// Closes the gate: spawn() refuses from now on. The await ends when the last pass has gone. At most one coroutine
  /// may await it.
  auto close() {
    struct Awaiter {
      Gate& gate;
      bool await_ready() {
        gate.closed_ = true;
        return gate.count_ == 0;
      }
      void await_suspend(std::coroutine_handle<> h) { gate.closer_ = h; }
      void await_resume() {}
    };
    return Awaiter{*this};
  }

 private:
  void leave() {
    if (--count_ == 0 && closer_) executor_.schedule(std::exchange(closer_, {}));
  }

  Executor& executor_;
  std::size_t count_ = 0;
  bool closed_ = false;
  std::coroutine_handle<> closer_;
};

namespace detail {

/// A coroutine that owns itself; only spawn() makes one.
struct Spawned {
  struct promise_type {
    Spawned get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

inline Spawned run_behind(Gate::Pass pass, Task<void> task) {
  // Both parameters live in this frame: the task's frame dies before the pass is gone.
  {
    Task<void> owned = std::move(task);
    co_await std::move(owned);
  }
  pass = Gate::Pass();
}

}  // namespace detail

/// Starts `task` at once, behind `gate`. Returns false and runs nothing if the gate is closed.
inline bool spawn(Gate& gate, Task<void> task) {
  if (gate.closed()) return false;
  detail::run_behind(Gate::Pass(gate), std::move(task));
  return true;
}

}  // namespace spate::job
