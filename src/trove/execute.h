// SPDX-License-Identifier: Apache-2.0
// Executes one bytestream operation by plain system calls: execute() may block, try_execute() never waits for a device.
#pragma once

#include <atomic>

#include "trove/datafile_store.h"

namespace spate::trove {

/// Calls that a local file system turned out not to support. All users of the file system share it. Thread-safe.
struct LocalAbilities {
  std::atomic<bool> nowait_read{true};
  std::atomic<bool> nowait_write{true};
  std::atomic<bool> cachestat{true};
};

/// Executes a checked request and fills all of `done` except `user`. May block. A read or write that try_execute() has
/// begun continues at `done.bytes` (0 for a new one). Such a read keeps done.stat.change_counter.
void execute(DatafileStore& store, const BytestreamRequest& request, BytestreamCompletion& done);

/// Executes as much as it can without blocking. True: complete. False: call execute() with the same `done` or, for a
/// read or write, continue at done.bytes in another way.
bool try_execute(DatafileStore& store, LocalAbilities& abilities, const BytestreamRequest& request,
                 BytestreamCompletion& done);

/// Ends an operation that was executed in another way (a ring). The caller has set status and bytes; this fills the
/// stat.
void finish_read(const LocalDatafile& datafile, BytestreamCompletion& done);
void finish_change(DatafileStore& store, LocalDatafile& datafile, BytestreamCompletion& done);

}  // namespace spate::trove
