// SPDX-License-Identifier: Apache-2.0
// What a folder's file system can do past the page cache (O_DIRECT), found out once.
#pragma once

#include <string>

#include "trove/bytestream.h"

namespace spate::trove {

/// Asks with `file`, a regular file on the file system in question (only opened, never changed). `in_memory`: the file
/// system is memory itself; new kernels accept O_DIRECT there and copy all the same, so it is refused by name.
DirectAbility probe_direct(const std::string& file, bool in_memory);

/// Reads the first block of `file` past the page cache to `memory`, which is a PCI device's:
/// Bytestreams::try_device_memory().
Result<void> probe_device_memory(const std::string& file, MutableByteView memory);

/// The code for what came of a read or write past the page cache. A device that cannot reach memory of another one is
/// told as EREMOTEIO, which devices use for other failures, too: these are found when it is done again in main memory.
Errc direct_errc(const BytestreamRequest& request, int error_number);

/// How much of a direct read's stream is asked of the device, bytes: every extent that begins before the datafile's
/// end, as a whole, since a part of a block cannot be asked for.
std::uint64_t direct_read_limit(std::span<const Extent> extents, std::uint64_t file_size);

}  // namespace spate::trove
