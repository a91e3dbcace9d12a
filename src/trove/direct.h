// SPDX-License-Identifier: Apache-2.0
// Probes what a folder's file system can do past the page cache (O_DIRECT).
#pragma once

#include <string>

#include "trove/bytestream.h"

namespace spate::trove {

/// Probes with `file`, a regular file on that file system, which is opened and never changed. `in_memory`: the file
/// system is memory itself. New kernels accept O_DIRECT there but copy all the same, so the probe refuses it.
DirectAbility probe_direct(const std::string& file, bool in_memory);

/// Reads the first block of `file` past the page cache into `memory` of a PCI device. For
/// Bytestreams::try_device_memory().
Result<void> probe_device_memory(const std::string& file, MutableByteView memory);

/// The code for the errno of a read or write past the page cache. EREMOTEIO means that the device cannot reach the
/// other device's memory. Devices also use it for other failures, which show when the request is repeated with main
/// memory.
Errc direct_errc(const BytestreamRequest& request, int error_number);

/// How many bytes of a direct read's stream to request from the device: every extent that begins before the datafile's
/// end, as a whole, since a device reads whole blocks only.
std::uint64_t direct_read_limit(std::span<const Extent> extents, std::uint64_t file_size);

}  // namespace spate::trove
