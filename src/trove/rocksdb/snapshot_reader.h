// SPDX-License-Identifier: Apache-2.0
// SnapshotReader: the store's view of a transaction.
#pragma once

#include <rocksdb/snapshot.h>

#include <cstddef>
#include <memory>

#include "trove/keyval.h"
#include "trove/rocksdb/read.h"

namespace spate::trove {

/// A snapshot, shared by the transactions that read at it and by their reads in threads. The last owner releases it to
/// RocksDB.
using SnapshotRef = std::shared_ptr<const rocksdb::Snapshot>;

/// Called on the store's own thread.
class SnapshotReader {
 public:
  virtual ~SnapshotReader() = default;
  /// The next commit changes the state that it reads: from now on it reads at `snapshot`.
  virtual void pin(SnapshotRef snapshot) = 0;
  /// One of its reads has ended in a thread. Fills in `done`.
  virtual void finish_read(Read& read, KeyvalCompletion& done) = 0;

  std::size_t watch_index = 0;  // only the store uses it
};

}  // namespace spate::trove
