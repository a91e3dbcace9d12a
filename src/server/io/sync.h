// SPDX-License-Identifier: Apache-2.0
// Makes datafiles durable, and records which writes write-back has lost (docs/consistency.md, "Durability").
#pragma once

#include "server/io/parts.h"

namespace spate::io {

struct SyncOutcome {
  std::uint64_t lost = 0;  // unsynced writes up to this change counter may be lost; 0: none
  bool lossy = false;      // this sync met an error of write-back, or another one did that began after this call
};

/// When it ends, every write, punch and truncate that was answered before survives a crash of the machine, except for
/// those that the outcome reports. The kernel reports an error of write-back once and then takes the pages for clean.
/// Here every sync reports it, until the machine is booted again. Fails if durability cannot be ensured. The caller
/// must not hold the datafile's lock.
job::Task<Result<SyncOutcome>> sync_datafile(Parts& parts, Target& target, DatafileId id, job::StopToken stop);

}  // namespace spate::io
