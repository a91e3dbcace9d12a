// SPDX-License-Identifier: Apache-2.0
// The file pointer that all ranks share: eight bytes in a hidden file beside the file. They change under a lock.
#pragma once

#include "mpiio/back/file.h"

namespace spate::mpiio {

/// Moves the pointer by `etypes` and sets *before to its old value.
Failure move_shared(File& file, std::uint64_t etypes, std::uint64_t* before);
Failure set_shared(File& file, std::uint64_t position);

}  // namespace spate::mpiio
