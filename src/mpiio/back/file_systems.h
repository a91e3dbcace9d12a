// SPDX-License-Identifier: Apache-2.0
// The file systems of this process. The first open connects to each, and MPI_Finalize disconnects.
#pragma once

#include <spate.h>

#include <optional>
#include <string>

#include "mpiio/names.h"

namespace spate::mpiio {

/// The file that a name means with this process's SPATE_PREFIX
/// and working directory. Nothing: the name is not Spate's.
std::optional<Name> resolve_here(const char* name);

/// Connects to a file system, or returns the connection that exists. Null: *outcome is the negative errno, and
/// spate_last_error() has a text. Thread-safe.
spate_fs* connect(const std::string& config, long* outcome);

}  // namespace spate::mpiio
