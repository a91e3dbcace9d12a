// SPDX-License-Identifier: Apache-2.0
// One bytestream operation by plain system calls: the blocking way, and the way that never waits for a device.
#pragma once

#include <atomic>

#include "trove/datafile_store.h"

namespace spate::trove {

/// What a local file system has been found unable to do; shared by all who use it. Thread-safe.
struct LocalAbilities {
  std::atomic<bool> nowait_read{true};
  std::atomic<bool> nowait_write{true};
  std::atomic<bool> cachestat{true};
};

/// Carries out a checked request and fills `done` (all but user). May block. `done.bytes` is where a read or write goes
/// on that try_execute has begun (0 for a new one); for a read that has begun, done.stat.change_counter is kept.
void execute(DatafileStore& store, const BytestreamRequest& request, BytestreamCompletion& done);

/// As far as it goes without blocking. True: complete. False: give it to execute() with the same `done`, or, for a read
/// or write, go on at done.bytes in another way.
bool try_execute(DatafileStore& store, LocalAbilities& abilities, const BytestreamRequest& request,
                 BytestreamCompletion& done);

/// Ends an operation that was carried out in another way (a ring): status and bytes are set, the stat is filled here.
void finish_read(const LocalDatafile& datafile, BytestreamCompletion& done);
void finish_change(DatafileStore& store, LocalDatafile& datafile, BytestreamCompletion& done);

}  // namespace spate::trove
