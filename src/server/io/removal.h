// SPDX-License-Identifier: Apache-2.0
// Removals that a crash of the machine may have undone.
#pragma once

#include "server/io/parts.h"

namespace spate::io {

/// Deletes once more whatever has a tombstone, unless that has been done since this start of the machine: a removal is
/// answered before it is durable, its tombstone is durable before that. Sets parts.removals_redone; on failure some may
/// be done, and the whole is to be tried again. Only with options.boot != 0.
job::Task<Result<void>> redo_removals(Parts& parts);

}  // namespace spate::io
