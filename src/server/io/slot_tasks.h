// SPDX-License-Identifier: Apache-2.0
// Runs the tasks of a request's slots without stalling the server's loop.
#pragma once

#include <vector>

#include "datatype/description.h"
#include "job/run_all.h"

namespace spate::io {

/// Runs one task for each slot, like job::run_all(). Each task examines every block of `what`, even if its slot has
/// none of them. If these are many, only a few tasks run at a time, and each begins in a turn of its own.
job::Task<Result<void>> run_slots(job::Executor& executor, const datatype::Description& what,
                                  std::vector<job::Task<Result<void>>> tasks, job::StopSource& siblings);

}  // namespace spate::io
