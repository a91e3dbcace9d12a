// SPDX-License-Identifier: Apache-2.0
// Tests whether a range of a file is in the page cache, and brings it there.
#pragma once

#include <atomic>
#include <span>

#include "trove/bytestream.h"

namespace spate::trove {

/// True if every page of the extents, up to the file's end, is in the page cache, by cachestat(2) (Linux 6.5). False if
/// one is not, or if it cannot be known; `known` becomes false for good if the kernel lacks the call. Never blocks. A
/// hole counts as not resident until it has been read once. Pages may leave the cache at any time.
bool is_resident(int fd, std::span<const Extent> extents, std::atomic<bool>& known);

/// How many bytes of the extents the page cache holds (whole pages are counted). kNotSupported: the kernel lacks the
/// call. Never blocks.
Errc count_resident(int fd, std::span<const Extent> extents, std::uint64_t& bytes);

/// Reads the extents into the page cache without copying them. Blocks. kIoError if the device fails.
Errc make_resident(int fd, std::span<const Extent> extents);

}  // namespace spate::trove
