// SPDX-License-Identifier: Apache-2.0
// Processor time and pinning of processes.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace spate::measure {

/// Seconds of processor time, user and system, that all threads of `pid` have taken so far (0: this process). To the
/// nanosecond, unlike /proc/PID/stat. kNotFound when there is no such process.
Result<double> cpu_seconds(pid_t pid);

/// Lets all threads of `pid` (0: the calling thread only) run on processor `cpu` only; `cpu` < 0: on all again.
/// kNotPermitted for other users' processes.
Result<void> pin(pid_t pid, int cpu);

/// Processors that this process may use.
int cpu_count();

}  // namespace spate::measure
