// SPDX-License-Identifier: Apache-2.0
// StorageWriter: parts of one slot's stream, written from memory to its datafile.
#pragma once

#include <vector>

#include "datatype/slot_cursor.h"
#include "flow/device.h"

namespace spate::flow {

/// The page cache; or past it, from main memory or from that of a PCI device.
enum class Through : std::uint8_t { kCache, kMainMemory, kDeviceMemory };

/// Pinned; one executor; one write() at a time.
class StorageWriter {
 public:
  /// `fs_time` becomes the datafile's mtime.
  StorageWriter(Device& device, const Share& share, WallTime fs_time)
      : device_(device), share_(share), time_(fs_time) {}
  StorageWriter(const StorageWriter&) = delete;
  StorageWriter& operator=(const StorageWriter&) = delete;

  /// Writes the stream's bytes from `at` on, which must have data.size() of them left, and moves `at` past them. After
  /// a failure part of them may have been written.
  job::Task<Result<void>> write(datatype::SlotCursor& at, ByteView data, job::StopToken stop);
  /// Writes `data` at one place of the datafile; past the page cache, place, size and memory are multiples of the
  /// target's alignment. kNotSupported: its device cannot reach the memory of the other one.
  job::Task<Result<void>> write_at(std::uint64_t offset, ByteView data, Through through, job::StopToken stop);
  /// Of all that was written, from memory that the target knew.
  std::uint64_t registered_bytes() const { return registered_bytes_; }
  bool has_stat() const { return has_stat_; }
  /// As of the last write, once there was one.
  const trove::BytestreamStat& stat() const { return stat_; }

 private:
  job::Task<Result<void>> write_extents(std::span<const Extent> extents, ByteView data, Through through,
                                        job::StopToken stop);

  Device& device_;
  const Share share_;
  const WallTime time_;
  std::vector<Extent> extents_;
  trove::BytestreamStat stat_;
  bool has_stat_ = false;
  std::uint64_t registered_bytes_ = 0;
};

}  // namespace spate::flow
