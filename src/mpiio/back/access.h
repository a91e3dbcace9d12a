// SPDX-License-Identifier: Apache-2.0
// Reads and writes of one rank through its view.
#pragma once

#include <cstdint>
#include <optional>

#include "mpiio/back/file.h"
#include "mpiio/back/memory.h"

namespace spate::mpiio {

/// The offset in the file of byte `position` of the view's stream.
std::int64_t file_offset(const View& view, std::uint64_t position);
/// Whether file_offset() of that byte, and the offset after it, fit into an MPI_Offset.
bool in_reach(const View& view, std::uint64_t position);
/// Whether `bytes` >= 1 bytes of the view's stream, from byte `first` on, ascend in the file.
bool in_order(const View& view, std::uint64_t first, std::uint64_t bytes);
/// A range of the file that has all these bytes: the smallest one if they are in order. Nothing: an offset does not fit
/// into an MPI_Offset.
std::optional<Flat::TrueExtent> range_of(const View& view, std::uint64_t first, std::uint64_t bytes);

/// Moves all of `memory` to or from the view's stream, from byte `first` on. Returns the number of bytes moved, which
/// is smaller at the end of the file. On failure it returns a negative errno, and a part of a write may have been done.
/// In atomic mode it holds a lock on the range.
long transfer(File& file, bool write, std::uint64_t first, const Memory& memory);

/// A lock of [begin, end) of an open file against all clients. The destructor releases the lock.
class RangeLock {
 public:
  RangeLock(spate_file* file, bool exclusive, std::int64_t begin, std::int64_t end);
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;
  ~RangeLock();
  /// 0, or a negative errno if there is no lock.
  long outcome() const { return outcome_; }

 private:
  spate_file* const file_;
  struct flock range_{};
  long outcome_ = 0;
};

}  // namespace spate::mpiio
