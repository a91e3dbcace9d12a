// SPDX-License-Identifier: Apache-2.0
// Converts Spate's values to the structs of POSIX, and back.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "client/client.h"

namespace spate::posix {

/// Leaves st_dev 0, since each front end has its own. st_blksize is `block_bytes`: the strip of a file, if known.
struct stat to_stat(const Attributes& attributes, std::uint64_t block_bytes = 1U << 20U);
/// Leaves f_fsid 0. Blocks are 4096 bytes.
struct statvfs to_statvfs(const client::SpaceUse& use);

timespec to_timespec(WallTime time);
WallTime to_wall_time(timespec time);

/// type_bits(): the S_IFMT bits of a type. The other function converts back; kInvalidArgument for a type that no object
/// can have.
mode_t type_bits(FileType type);
Result<FileType> type_of_mode(mode_t mode);
/// DT_... of <dirent.h>.
unsigned char entry_type(FileType type);

/// Fills in the times of `request`. `times` is as utimensat takes it; null: both are the present time. kInvalidArgument
/// for nanoseconds out of range.
Result<void> set_times(const timespec times[2], wire::SetattrRequest& request);

}  // namespace spate::posix
