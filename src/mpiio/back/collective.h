// SPDX-License-Identifier: Apache-2.0
// Reads and writes that all ranks make together (mpiio/exchange_plan.h).
#pragma once

#include "mpiio/back/access.h"

namespace spate::mpiio {

/// The result of a collective access on this rank.
struct Moved {
  long bytes = 0;
  Failure failure;
};

/// transfer() of all ranks. `own`: what is wrong with this rank's arguments; if any rank has something here, no rank
/// moves anything. Every rank returns, and all fail if one does.
Moved transfer_together(File& file, bool write, std::uint64_t first, const Memory& memory, const Failure& own);

}  // namespace spate::mpiio
