// SPDX-License-Identifier: Apache-2.0
// Processor time and pinning of processes.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace spate::measure {

/// Seconds of processor time, user and system, that all threads of `pid` (0: this process) have used so far. Exact to
/// the nanosecond, unlike /proc/PID/stat. kNotFound: there is no such process.
Result<double> cpu_seconds(pid_t pid);

/// Restricts all threads of `pid` (0: the calling thread only) to processor `cpu`; `cpu` < 0: allows all processors
/// again. kNotPermitted for other users' processes.
Result<void> pin(pid_t pid, int cpu);

/// The number of processors that this process may use.
int cpu_count();

}  // namespace spate::measure
