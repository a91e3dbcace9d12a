// SPDX-License-Identifier: Apache-2.0
// run_all: the slots of one request at once.
#pragma once

#include <vector>

#include "base/result.h"
#include "job/executor.h"
#include "job/stop.h"
#include "job/task.h"

namespace spate::io {

/// Tasks of one request that run at the same time; more wait for one to end.
constexpr std::size_t kMaxParallel = 32;

/// Ends when all have ended. The first failure (in time) stops `siblings`, which the tasks are expected to heed, and is
/// what comes back.
job::Task<Result<void>> run_all(job::Executor& executor, std::vector<job::Task<Result<void>>> tasks,
                                job::StopSource& siblings);

}  // namespace spate::io
