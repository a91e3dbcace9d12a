// SPDX-License-Identifier: Apache-2.0
#include "server/io/parallel.h"

#include <algorithm>

#include "job/gate.h"

namespace spate::io {
namespace {

/// What the workers of one run_all share; lives on its frame.
struct Batch {
  std::vector<job::Task<Result<void>>>& tasks;
  job::StopSource& siblings;
  std::size_t next = 0;
  Result<void> outcome;
};

job::Task<void> work(Batch& batch) {
  while (batch.next < batch.tasks.size()) {
    job::Task<Result<void>> task = std::move(batch.tasks[batch.next++]);
    if (!batch.outcome) continue;  // not begun any more
    auto result = co_await std::move(task);
    if (result || !batch.outcome) continue;
    batch.outcome = std::move(result);
    batch.siblings.request_stop();
  }
}

}  // namespace

job::Task<Result<void>> run_all(job::Executor& executor, std::vector<job::Task<Result<void>>> tasks,
                                job::StopSource& siblings) {
  if (tasks.size() == 1) {
    auto only = co_await std::move(tasks.front());
    co_return only;
  }
  Batch batch{tasks, siblings, 0, {}};
  job::Gate gate(executor);
  const std::size_t workers = std::min(tasks.size(), kMaxParallel);
  for (std::size_t i = 0; i < workers; ++i) job::spawn(gate, work(batch));
  co_await gate.close();
  co_return std::move(batch.outcome);
}

}  // namespace spate::io
