// SPDX-License-Identifier: Apache-2.0
// Converts Spate's values to the structs of POSIX, and back.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "client/client.h"

namespace spate::posix {

/// Leaves st_dev 0, because each front end has its own. st_blksize is `block_bytes`: a file's strip, if known.
struct stat to_stat(const Attributes& attributes, std::uint64_t block_bytes = 1U << 20U);
/// Leaves f_fsid 0. Blocks are 4096 bytes.
struct statvfs to_statvfs(const client::SpaceUse& use);

timespec to_timespec(WallTime time);
WallTime to_wall_time(timespec time);

/// type_bits(): the S_IFMT bits of a type. type_of_mode() converts back; kInvalidArgument for a type that no object can
/// have.
mode_t type_bits(FileType type);
Result<FileType> type_of_mode(mode_t mode);
/// DT_... of <dirent.h>.
unsigned char entry_type(FileType type);

/// Sets the times of `request`. `times` has the form of utimensat; null: both times are the present time.
/// kInvalidArgument: nanoseconds are out of range.
Result<void> set_times(const timespec times[2], wire::SetattrRequest& request);

}  // namespace spate::posix
