// SPDX-License-Identifier: Apache-2.0
// The mounts of this machine, from the kernel's table. No mount is asked itself: it may wait for its servers.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace spate::tools {

struct MountPoint {
  std::string source;  // of a mount of Spate: its spate.toml or that file's folder, or the text of fsname=
  std::string directory;
  std::string type;  // "fuse.spate"
  uid_t user = 0;    // the user who has mounted it, if it is a FUSE mount
};

/// The last mount at `directory`; its type is empty if there is none.
MountPoint mounted_at(const std::string& directory);
/// The mount that contains `path`, which is absolute and without links.
MountPoint mount_of(const std::string& path);
/// Whether its source can be trusted: root or this user has mounted it. Other users may give a FUSE mount any name.
bool is_trusted(const MountPoint& mount);
/// The mounts of Spate.
std::vector<MountPoint> spate_mounts();
/// The mounts of the file system with this spate.toml.
std::vector<MountPoint> mounts_of(const std::string& config_file);
/// Whether the mount's process has ended: it answers nothing any more.
bool has_ended(const MountPoint& mount);

}  // namespace spate::tools
