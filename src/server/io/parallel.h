// SPDX-License-Identifier: Apache-2.0
// run_all: the slots of one request at once.
#pragma once

#include <vector>

#include "base/result.h"
#include "job/executor.h"
#include "job/stop.h"
#include "job/task.h"

namespace spate::io {

/// How many tasks of one request run at the same time. Further tasks wait for one to end.
constexpr std::size_t kMaxParallel = 32;

/// Ends when all tasks have ended. The first failure (in time) stops `siblings`, and is the result. The tasks should
/// observe its token.
job::Task<Result<void>> run_all(job::Executor& executor, std::vector<job::Task<Result<void>>> tasks,
                                job::StopSource& siblings);

}  // namespace spate::io
