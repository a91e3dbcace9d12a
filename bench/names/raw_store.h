// SPDX-License-Identifier: Apache-2.0
// RawStore: a bare RocksDB with the options of the meta server's store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace rocksdb {
class DB;
}

namespace spate::bench {

/// The destructor removes the folder. One thread.
class RawStore {
 public:
  static Result<RawStore> open(const std::string& folder);
  RawStore(RawStore&& other) noexcept;
  RawStore& operator=(RawStore&&) = delete;
  RawStore(const RawStore&) = delete;
  RawStore& operator=(const RawStore&) = delete;
  ~RawStore();

  /// Makes `count` puts of 200 bytes under new keys. Each is a write of its own, and is not synced.
  Result<double> puts_per_second(std::uint64_t count);
  /// Seconds in which an iterator reads `count` records. Missing records are put before.
  Result<double> scan_seconds(std::uint64_t count);

 private:
  RawStore(std::string folder, std::unique_ptr<rocksdb::DB> store);

  std::string folder_;
  std::unique_ptr<rocksdb::DB> store_;
  std::uint64_t next_ = 0;
};

}  // namespace spate::bench
