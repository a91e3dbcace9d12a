// SPDX-License-Identifier: Apache-2.0
// The limit of open files and connections of this process.
#pragma once

#include <sys/resource.h>

#include "base/result.h"

namespace spate {

/// Raises the soft limit to the hard one, or to 2^20 if that is lower: the hard limit may be infinite, and some tables
/// are sized by the soft one. Never lowers it. Returns the limit now; on failure it is as it was. Thread-safe.
Result<rlim_t> raise_open_files_limit();

}  // namespace spate
