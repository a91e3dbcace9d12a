// SPDX-License-Identifier: Apache-2.0
// Makes datafiles durable, and remembers what write-back has lost of them (docs/consistency.md, "Durability").
#pragma once

#include "server/io/parts.h"

namespace spate::io {

struct SyncOutcome {
  std::uint64_t lost =
      0;               // writes up to this change counter may be lost, unless a sync before had covered them; 0: none
  bool lossy = false;  // this sync has found that, or one beside it that stands for it
};

/// Every write, punch and truncate that was answered before survives a crash of the machine, but for what the outcome
/// tells. The kernel tells an error of write-back once and then takes the pages for clean; here every sync is told,
/// until the machine is started anew. Fails when that cannot be made sure. Nobody holds the datafile's lock.
job::Task<Result<SyncOutcome>> sync_datafile(Parts& parts, Target& target, DatafileId id, job::StopToken stop);

}  // namespace spate::io
