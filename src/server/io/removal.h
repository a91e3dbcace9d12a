// SPDX-License-Identifier: Apache-2.0
// Repeats removals that a crash of the machine may have undone.
#pragma once

#include "server/io/parts.h"

namespace spate::io {

/// Deletes every datafile with a tombstone again, unless that was done in this boot of the machine. It is needed
/// because a removal is answered before it is durable; only its tombstone is durable by then. Sets
/// parts.removals_redone. After a failure some may be done: call it again. Only with options.boot != 0.
job::Task<Result<void>> redo_removals(Parts& parts);

}  // namespace spate::io
