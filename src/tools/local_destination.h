// SPDX-License-Identifier: Apache-2.0
// Steps of a copy at its destination outside the file system. destination.h has those of the other direction.
#pragma once

#include <fcntl.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "model/attributes.h"

namespace spate::tools {

/// A directory that is being copied out. It gets its owner, mode and times when its last holder, the walk or a file in
/// it, has released it. So the walk goes on into the next directory meanwhile.
struct LocalFolder {
  UniqueFd fd;
};
using LocalFolderPtr = std::shared_ptr<const LocalFolder>;

/// The place of a copy: a name in an open folder. So no link that another user makes, or that the copy itself has made,
/// leads out of the folder. Without a folder: the path that the user named, which may be a link.
struct LocalPlace {
  LocalFolderPtr folder;
  std::string name;

  int at() const { return folder == nullptr ? AT_FDCWD : folder->fd.get(); }
  const char* c_str() const { return name.c_str(); }
  /// The flag for open(2).
  int follow() const { return folder == nullptr ? 0 : O_NOFOLLOW; }
};

/// Opens the folder of a place again. `path` starts at `top`. No step leads through a link.
Result<LocalPlace> place_below(const LocalFolderPtr& top, const std::string& path);

/// An object in the file system and the name of its copy; `to` is for messages.
struct CopySource {
  std::string from;
  std::string to;
  LocalPlace place;
  Attributes attributes;
};

/// The destination of a file's data.
struct LocalFile {
  UniqueFd fd;
  bool regular = false;   // false: a device or a fifo: it has no size, and keeps its mode and times
  std::uint32_t uid = 0;  // of a regular file, after open_local()
  std::uint32_t gid = 0;
};

/// Opens the copy of a file. An existing one gets its final owner at once and loses the rights of others and its access
/// list, before any data is written.
Result<LocalFile> open_local(const CopySource& file);
/// Sets mode and times, after the data and the owner.
Result<void> finish_local(const LocalFile& local, const CopySource& file);

Result<void> make_symlink_here(const CopySource& link, const std::string& target);
/// Makes a further name of the copy at `first`.
Result<void> make_link_here(const LocalPlace& first, const CopySource& source);

/// Makes the directory, or takes an existing one, but not through a link. Returns it open.
Result<UniqueFd> make_directory_here(const CopySource& directory);
/// Sets owner, mode and times. `to`: the folder's path, for messages.
Result<void> finish_folder(const LocalFolder& folder, const Attributes& source, const std::string& to);

}  // namespace spate::tools
