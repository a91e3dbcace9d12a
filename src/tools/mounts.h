// SPDX-License-Identifier: Apache-2.0
// The mounts of this machine, as the kernel tells them. No mount is asked itself: it may wait for its servers.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace spate::tools {

struct MountPoint {
  std::string source;  // of a mount of Spate: its spate.toml or the folder of it, or what fsname= says
  std::string directory;
  std::string type;  // "fuse.spate"
  uid_t user = 0;    // who has mounted it, if it is one by FUSE
};

/// The last mount at `directory`; its type is empty when there is none.
MountPoint mounted_at(const std::string& directory);
/// The mount that `path`, absolute and without links, is in.
MountPoint mount_of(const std::string& path);
/// Its source may be believed: root or this user has mounted it. Any user may call a FUSE mount of his as he likes.
bool is_trusted(const MountPoint& mount);
/// The mounts of Spate.
std::vector<MountPoint> spate_mounts();
/// Those of the file system with this spate.toml.
std::vector<MountPoint> mounts_of(const std::string& config_file);
/// A mount is left whose process has ended: it answers nothing any more.
bool has_ended(const MountPoint& mount);

}  // namespace spate::tools
