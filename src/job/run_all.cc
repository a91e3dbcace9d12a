// SPDX-License-Identifier: Apache-2.0
#include "job/run_all.h"

#include <algorithm>

#include "job/gate.h"

namespace spate::job {
namespace {

Task<void> keep_first_failure(Task<Result<void>> task, Result<void>& first) {
  auto result = co_await std::move(task);
  if (!result && first) first = std::move(result);
}

/// State that the workers of one bounded run_all() share; lives on its frame.
struct Batch {
  std::vector<Task<Result<void>>>& tasks;
  StopSource& siblings;
  std::size_t next = 0;
  Result<void> outcome;
};

Task<void> work(Batch& batch) {
  while (batch.next < batch.tasks.size()) {
    Task<Result<void>> task = std::move(batch.tasks[batch.next++]);
    if (!batch.outcome) continue;  // a sibling has failed: do not start this one
    auto result = co_await std::move(task);
    if (result || !batch.outcome) continue;
    batch.outcome = std::move(result);
    batch.siblings.request_stop();
  }
}

}  // namespace

Task<Result<void>> run_all(Executor& executor, std::vector<Task<Result<void>>> tasks) {
  if (tasks.size() == 1) {  // the common small request: no gate
    auto only = co_await std::move(tasks.front());
    co_return only;
  }
  Result<void> first;
  Gate gate(executor);
  for (auto& task : tasks) spawn(gate, keep_first_failure(std::move(task), first));
  co_await gate.close();
  co_return first;
}

Task<Result<void>> run_all(Executor& executor, std::vector<Task<Result<void>>> tasks, StopSource& siblings) {
  if (tasks.size() == 1) {
    auto only = co_await std::move(tasks.front());
    co_return only;
  }
  Batch batch{tasks, siblings, 0, {}};
  Gate gate(executor);
  const std::size_t workers = std::min(tasks.size(), kMostAtOnce);
  for (std::size_t i = 0; i < workers; ++i) spawn(gate, work(batch));
  co_await gate.close();
  co_return std::move(batch.outcome);
}

}  // namespace spate::job
