// SPDX-License-Identifier: Apache-2.0
// Reads and writes that all ranks make together (mpiio/exchange_plan.h).
#pragma once

#include "mpiio/back/two_phases.h"

namespace spate::mpiio {

/// The result of a collective access on this rank.
struct CollectiveResult {
  long bytes = 0;
  Failure failure;
};

/// transfer() of all ranks. `own`: an error in this rank's arguments. If any rank has one, no rank moves anything.
/// Every rank returns; if one fails, all fail.
CollectiveResult transfer_collectively(const CollectiveAccess& work, const Failure& own);

}  // namespace spate::mpiio
