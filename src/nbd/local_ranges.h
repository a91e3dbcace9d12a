// SPDX-License-Identifier: Apache-2.0
// Ranges of a local file or block device: writes zeros, discards, finds holes. The system calls may block.
#pragma once

#include <vector>

#include "nbd/device.h"

namespace spate::nbd {

/// An open file or block device.
struct LocalFile {
  int fd = -1;
  bool block_device = false;
  std::uint32_t sector = 1;  // of a block device: the unit in which it frees and zeroes, bytes
};

/// Fills `memory`. kIoError at the file's end, which another process has moved.
Result<void> read_all(int fd, std::uint64_t offset, MutableByteView memory, int flags);
Result<void> write_all(int fd, std::uint64_t offset, ByteView memory);
/// Writes `size` bytes that are in the pipe. After a failure some of them are still there.
Result<void> write_from_pipe(int fd, std::uint64_t offset, int pipe, std::size_t size);
/// Best effort: does nothing if the file system cannot free space.
Result<void> discard(const LocalFile& file, Extent range);
Result<void> zero_range(const LocalFile& file, Extent range, ZeroParams params);
/// As Device::status. If the file system does not report holes, everything is data.
std::vector<StatusExtent> map_holes(const LocalFile& file, Extent range, std::size_t max);

}  // namespace spate::nbd
