// SPDX-License-Identifier: Apache-2.0
// run_all: several tasks at the same time, and the first failure among them.
#pragma once

#include <vector>

#include "base/result.h"
#include "job/executor.h"
#include "job/stop.h"
#include "job/task.h"

namespace spate::job {

/// How many tasks of one bounded run_all() run at the same time. Further tasks wait for one to end.
constexpr std::size_t kMostAtOnce = 32;

/// Starts all tasks and ends when all have ended. The result is the first failure (in time); the others still run to
/// their end.
Task<Result<void>> run_all(Executor& executor, std::vector<Task<Result<void>>> tasks);

/// The same with kMostAtOnce tasks at a time. The first failure stops `siblings`, whose token the tasks should observe;
/// tasks that have not begun by then never run.
Task<Result<void>> run_all(Executor& executor, std::vector<Task<Result<void>>> tasks, StopSource& siblings);

}  // namespace spate::job
