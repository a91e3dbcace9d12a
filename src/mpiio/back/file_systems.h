// SPDX-License-Identifier: Apache-2.0
// The file systems that this process uses, each connected by the first open and left by MPI_Finalize.
#pragma once

#include <spate.h>

#include <optional>
#include <string>

#include "mpiio/names.h"

namespace spate::mpiio {

/// Which file a name means, with this process's SPATE_PREFIX and working directory. Nothing: not Spate's.
std::optional<Name> resolve_here(const char* name);

/// Null: spate_last_error() says why, *outcome is the negative errno. Thread-safe.
spate_fs* connect(const std::string& config, long* outcome);

}  // namespace spate::mpiio
