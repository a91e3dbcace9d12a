// SPDX-License-Identifier: Apache-2.0
// StorageWriter: writes parts of one slot's stream from memory to its datafile.
#pragma once

#include <vector>

#include "datatype/slot_cursor.h"
#include "flow/device.h"

namespace spate::flow {

/// How to write: through the page cache, or past it from main memory or from memory of a PCI device.
enum class WriteMode : std::uint8_t { kBuffered, kDirect, kDirectFromDevice };

/// Not movable. Not thread-safe: one executor. Writes may overlap in time.
class StorageWriter {
 public:
  /// `fs_time` becomes the datafile's mtime.
  StorageWriter(Device& device, const DatafileStream& share, WallTime fs_time)
      : device_(device), share_(share), time_(fs_time) {}
  StorageWriter(const StorageWriter&) = delete;
  StorageWriter& operator=(const StorageWriter&) = delete;

  /// Writes the stream's bytes from `at` on and moves `at` past them. The stream must have at least data.size() bytes
  /// left at `at`. After a failure a part may have been written.
  job::Task<Result<void>> write(datatype::SlotCursor& at, ByteView data, job::StopToken stop);
  /// Writes `data` at `offset` of the datafile. If it goes past the page cache, offset, size and memory must be
  /// multiples of the target's alignment. kNotSupported: the target's device cannot reach the other device's memory.
  job::Task<Result<void>> write_at(std::uint64_t offset, ByteView data, WriteMode mode, job::StopToken stop);
  /// Bytes that were written from registered memory.
  std::uint64_t registered_bytes() const { return registered_bytes_; }
  bool has_stat() const { return has_stat_; }
  /// The datafile's state after its newest change by a write. Valid only after the first write.
  const trove::BytestreamStat& stat() const { return stat_; }

 private:
  job::Task<Result<void>> write_extents(std::span<const Extent> extents, ByteView data, WriteMode mode,
                                        job::StopToken stop);

  Device& device_;
  const DatafileStream share_;
  const WallTime time_;
  trove::BytestreamStat stat_;
  bool has_stat_ = false;
  std::uint64_t registered_bytes_ = 0;
};

}  // namespace spate::flow
