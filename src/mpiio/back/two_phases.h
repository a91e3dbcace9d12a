// SPDX-License-Identifier: Apache-2.0
// A collective access in two phases: some ranks, the aggregators, read and write for all, and the ranks exchange the
// data with them. Source: R. Thakur, W. Gropp, E. Lusk: Data Sieving and Collective I/O in ROMIO, sec. 4
// (docs/references.md, ROMIO).
#pragma once

#include <cstdint>

#include "mpiio/back/access.h"
#include "mpiio/back/communicator.h"
#include "mpiio/exchange_plan.h"

namespace spate::mpiio {

/// One rank's part of a collective access.
struct CollectiveAccess {
  File& file;
  Communicator communicator;
  bool write = false;
  std::uint64_t first = 0;  // first byte in the view's stream
  const Memory& memory;
};

struct Exchanged {
  long outcome = 0;      // a negative errno of this rank's own reads and writes, or 0
  std::int64_t eof = 0;  // offset of the first byte that this rank did not find when it read; INT64_MAX: it found all
};

/// Makes the access, whose bytes ascend in the file. Collective: all ranks pass the same `write` and equal `domains`.
/// Returns on every rank, whatever fails. Needs about six times hints.cb_buffer_size of memory, a part of which the
/// file keeps for the next access.
Exchanged move_in_two_phases(const CollectiveAccess& work, const Domains& domains);

}  // namespace spate::mpiio
