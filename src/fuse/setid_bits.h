// SPDX-License-Identifier: Apache-2.0
// Set-uid and set-gid of files that users change. The kernel leaves it to the mount to clear these bits
// (kClearsRights). So the kernel need not ask for a file's attributes before each write.
#pragma once

#include "fuse/mount.h"

namespace spate::fuse {

/// Clears set-uid, and set-gid if the group may execute the file. A mount of a user leaves that to the servers.
Result<void> clear_setid_bits(fuse_req_t request, fuse_ino_t inode);
/// Before a change through `open`. The servers clear them where a user has opened the file for writing. They do not
/// know of a program that has opened it as root and changes it as a user. `kills`: the caller is a user.
Result<void> clear_setid_bits(fuse_req_t request, OpenFile& open, bool kills);
/// Whether the caller is a user, for requests that do not say it (CurrentRequest::Hints::kills_rights). False also if
/// the kernel clears the bits itself.
bool kills_rights();

}  // namespace spate::fuse
