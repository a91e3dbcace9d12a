// SPDX-License-Identifier: Apache-2.0
// Data and holes of a local file: where they are, and copying both.
#pragma once

#include "trove/bytestream.h"

namespace spate::trove {

/// Fills done.ranges and done.complete_to as BytestreamOp::kDataRanges says, by SEEK_DATA and SEEK_HOLE. Where the
/// local file system tells nothing of holes, all is data. May block.
Errc find_data_ranges(int fd, std::uint64_t from, std::size_t max_ranges, BytestreamCompletion& done);

/// Where a copy comes from; `fd` -1: from nothing but a hole.
struct CopySource {
  int fd = -1;
  std::uint64_t offset = 0;
};

/// Copies to.size bytes from `source` to `to`. Holes, and what lies beyond the source's end, become holes; the file
/// reaches to the end of `to` afterwards. By copy_file_range(2), which shares the blocks where the local file system
/// can; through memory where it refuses. May block. After a failure part of it may have been done.
Errc copy_range(CopySource source, int to_fd, const Extent& to);

}  // namespace spate::trove
