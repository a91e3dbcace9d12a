// SPDX-License-Identifier: Apache-2.0
// StorageReader: reads one slot's stream from its datafile into memory, piece by piece.
#pragma once

#include <vector>

#include "datatype/slot_cursor.h"
#include "flow/device.h"

namespace spate::flow {

/// The stream has present_bytes() bytes: it ends with the last byte that the datafile has. In an unordered description,
/// a piece beyond the datafile's end may precede a piece within; it reads as zeros. If the datafile becomes shorter
/// while it is read, the stream ends early or continues with zeros. stat() then shows the new size, so a client never
/// takes such zeros for data. Not movable. Not thread-safe: one executor, one fill() at a time.
class StorageReader {
 public:
  StorageReader(Device& device, const DatafileStream& share);
  StorageReader(const StorageReader&) = delete;
  StorageReader& operator=(const StorageReader&) = delete;

  /// Reads the next bytes of the stream; fewer than out.size() only at its end. kIoError: the store returned fewer
  /// bytes than the datafile has. After a failure the reader must not be used again.
  job::Task<Result<std::uint64_t>> fill(MutableByteView out, job::StopToken stop);
  bool ended() const { return ended_ || cursor_.done(); }
  /// The datafile's state at the last read, or before if it only grew since. Asks the store if nothing was read.
  job::Task<Result<trove::BytestreamStat>> stat(job::StopToken stop);

 private:
  job::Task<Result<std::uint64_t>> read_rest(MutableByteView out, std::uint64_t got, job::StopToken stop);
  job::Task<Result<std::uint64_t>> read_unordered(MutableByteView out, job::StopToken stop);
  void split_at_end(MutableByteView out);
  SchedulerRequest place() const {
    return {share_.asker.client, share_.datafile, extents_.front().offset, bytes_, share_.asker.priority};
  }

  Device& device_;
  const DatafileStream share_;
  datatype::SlotCursor cursor_;
  std::vector<Extent> extents_;  // of the batch under way
  std::uint64_t bytes_ = 0;      // how many bytes it has
  trove::BytestreamStat stat_;
  bool has_stat_ = false;
  bool ended_ = false;
  // Unordered descriptions only: the rest of the stream, and the pieces that the datafile has.
  std::uint64_t left_ = 0;
  std::vector<Extent> present_;
  std::vector<MutableByteView> present_memory_;
};

}  // namespace spate::flow
