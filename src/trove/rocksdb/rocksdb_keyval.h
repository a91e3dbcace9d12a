// SPDX-License-Identifier: Apache-2.0
// Opening the RocksDB store. What it promises and its records: docs/disk-keyval.md.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "trove/keyval.h"

namespace rocksdb {
class Env;
}

namespace spate::trove {

/// The sizes are chosen for a daemon that takes 40 MiB at rest. A busy metadata server gives more to the block cache.
struct RocksdbOptions {
  std::string folder;  // made when it does not exist; the folder above must exist
  std::size_t block_cache_bytes = std::size_t{8} << 20;
  std::size_t record_cache_bytes = std::size_t{8} << 20;  // single records, found without RocksDB; 1 MiB at rest
  std::size_t write_buffer_bytes = std::size_t{8} << 20;  // up to three of them while writing fast
  std::size_t conflict_window_bytes = std::size_t{4} << 20;
  unsigned read_threads = 2;  // for reads that are not in memory; started when first needed. >= 1
  // False: threads do everything, for file systems where even a write into the system's cache may block (NFS).
  bool inline_reads = true;
  bool inline_commits = true;
  bool short_of_space = false;  // for tests: behaves as if the device had only the room that a start needs
  rocksdb::Env* env = nullptr;  // null: the system's. Not owned, outlives the store. For tests
};

/// Opens or creates a store. May block (replays the log). kBusy: another process uses it; kFormatTooNew: a newer
/// version of Spate wrote it; kWrongFileSystem: the folder holds a RocksDB store that is not ours; kCorrupt, kNotFound,
/// kPermissionDenied, kNoSpace, kIoError: see the error's context. All transactions are destroyed before the store.
Result<std::unique_ptr<Keyval>> open_rocksdb(const RocksdbOptions& options);

}  // namespace spate::trove
