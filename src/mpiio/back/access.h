// SPDX-License-Identifier: Apache-2.0
// One rank's reads and writes through its view.
#pragma once

#include <cstdint>

#include "mpiio/back/file.h"

namespace spate::mpiio {

/// The memory of one access: `count` elements of a type at `base`. A value; `flat` lives as long as it.
struct Memory {
  char* base = nullptr;
  std::shared_ptr<const Flat> flat;
  std::uint64_t bytes = 0;  // of its stream
  /// Where the stream lies in memory if that is one piece, else null.
  char* whole() const;
};
/// The failure's class: MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_BUFFER.
Failure memory_of(void* buffer, MPI_Count count, MPI_Datatype type, Memory& out);

/// Between memory and bytes of its own, `size` bytes of the memory's stream from byte `first` on.
void gather(const Memory& memory, std::uint64_t first, std::uint64_t size, char* out);
void scatter(const Memory& memory, std::uint64_t first, std::uint64_t size, const char* from);

/// Where byte `position` of the view's stream lies in the file.
std::int64_t file_offset(const View& view, std::uint64_t position);

/// Moves all of `memory` to or from the view's stream from byte `first` on. The bytes moved (fewer at the end of the
/// file), or a negative errno, after which a write may have been done in part. In atomic mode under a lock of the
/// extent.
long transfer(File& file, bool write, std::uint64_t first, const Memory& memory);

/// A lock of [begin, end) of an open file that holds against all clients, for as long as this lives.
class RangeLock {
 public:
  RangeLock(spate_file* file, bool exclusive, std::int64_t begin, std::int64_t end);
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;
  ~RangeLock();
  /// 0, or a negative errno: there is no lock.
  long outcome() const { return outcome_; }

 private:
  spate_file* const file_;
  struct flock range_{};
  long outcome_ = 0;
};

}  // namespace spate::mpiio
