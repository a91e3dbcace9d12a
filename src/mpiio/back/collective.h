// SPDX-License-Identifier: Apache-2.0
// Reads and writes that all ranks make together (mpiio/exchange_plan.h).
#pragma once

#include "mpiio/back/access.h"

namespace spate::mpiio {

/// What a collective access came to on this rank.
struct Moved {
  long bytes = 0;
  Failure failure;
};

/// transfer() of all ranks; `own` is what is wrong with this rank's arguments: then no rank moves anything. All ranks
/// return, and all fail if one does.
Moved transfer_together(File& file, bool write, std::uint64_t first, const Memory& memory, const Failure& own);

}  // namespace spate::mpiio
