// SPDX-License-Identifier: Apache-2.0
// Finds the data and the holes of a local file, and copies both.
#pragma once

#include "trove/bytestream.h"

namespace spate::trove {

/// Fills done.ranges and done.complete_to as BytestreamOp::kDataRanges says, by SEEK_DATA and SEEK_HOLE. Everything
/// counts as data if the local file system does not report holes. May block.
Errc find_data_ranges(int fd, std::uint64_t from, std::size_t max_ranges, BytestreamCompletion& done);

/// How many bytes of the range have no place on the device yet, so that writing them takes room there. Space that was
/// reserved has its place where the file system reports extents (FIEMAP); on tmpfs, it counts as missing until it is
/// written. Blocks that another file shares need a new place. May block.
std::uint64_t missing_bytes(int fd, const Extent& range);

/// The source of a copy. `fd` -1: a hole.
struct CopySource {
  int fd = -1;
  std::uint64_t offset = 0;
};

/// Copies to.size bytes from `source` to `to`. Holes, and what lies beyond the source's end, become holes; the file
/// reaches to the end of `to` afterwards. By copy_file_range(2), which shares the blocks where the local file system
/// can; through memory where it refuses. May block. After a failure part of it may have been done.
Errc copy_range(CopySource source, int to_fd, const Extent& to);

}  // namespace spate::trove
