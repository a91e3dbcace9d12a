// SPDX-License-Identifier: Apache-2.0
// off_loop: awaits a function that may block, run by a worker thread.
#pragma once

#include <coroutine>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/workers.h"
#include "job/executor.h"

namespace spate::job {

/// `work` returns a T (not void) and must not touch the executor. It and everything that it refers to must live until
/// it has ended. Await it on the executor's thread, in the statement that makes it.
template <typename Work>
class OffLoop {
 public:
  using Value = std::invoke_result_t<Work&>;
  OffLoop(Executor& executor, Workers& workers, Work work)
      : executor_(executor), workers_(workers), work_(std::move(work)) {}
  bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    workers_.run([this, handle] {
      value_.emplace(work_());
      executor_.post([handle] { handle.resume(); });
    });
  }
  Value await_resume() { return *std::move(value_); }

 private:
  Executor& executor_;
  Workers& workers_;
  Work work_;
  std::optional<Value> value_;
};

template <typename Work>
OffLoop<Work> off_loop(Executor& executor, Workers& workers, Work work) {
  return OffLoop<Work>(executor, workers, std::move(work));
}

}  // namespace spate::job
