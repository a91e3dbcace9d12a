// SPDX-License-Identifier: Apache-2.0
// Ranges of a local file or block device: zeroing, discarding, looking for holes. System calls that may block.
#pragma once

#include <vector>

#include "nbd/device.h"

namespace spate::nbd {

/// An open file or block device.
struct LocalFile {
  int fd = -1;
  bool block_device = false;
  std::uint32_t sector = 1;  // of a block device: what it frees and zeroes whole ones of, bytes
};

/// All of `memory`; kIoError at the file's end, which somebody else has moved.
Result<void> read_all(int fd, std::uint64_t offset, MutableByteView memory, int flags);
Result<void> write_all(int fd, std::uint64_t offset, ByteView memory);
/// `size` bytes that are in the pipe. After a failure some of them are left there.
Result<void> write_from_pipe(int fd, std::uint64_t offset, int pipe, std::size_t size);
/// Best effort: a file system that cannot free space leaves it as it is.
Result<void> discard(const LocalFile& file, Extent range);
Result<void> zero_range(const LocalFile& file, Extent range, ZeroParams params);
/// As Device::status. A file system that cannot tell: all data.
std::vector<StatusExtent> map_holes(const LocalFile& file, Extent range, std::size_t max);

}  // namespace spate::nbd
