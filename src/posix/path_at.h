// SPDX-License-Identifier: Apache-2.0
// PathAt: names an object as POSIX calls do: a directory and a path below it.
#pragma once

#include <string>

#include "model/attributes.h"
#include "wire/meta_messages.h"

namespace spate::posix {

/// A value. `base` is the handle of a directory descriptor, of the working directory or of the root. A path that begins
/// with '/' starts at the root, whatever `base` is.
struct PathAt {
  Handle base = kRootHandle;
  std::string path;
  bool follow = true;          // whether to follow a symbolic link at the path's end
  bool empty_is_base = false;  // AT_EMPTY_PATH; without it an empty path is kNotFound

  /// The object itself, named by an inode number or an open descriptor.
  static PathAt object(Handle handle) { return {handle, {}, true, true}; }
  /// One entry of a directory, as FUSE names it; a link is not followed.
  static PathAt entry(Handle directory, std::string name) { return {directory, std::move(name), false, false}; }
};

/// The longest path that is accepted, bytes; for a longer one: kNameTooLong. (PATH_MAX counts the NUL, this does not.)
constexpr std::size_t kLongestPath = kMaxPathBytes - 1;

/// The path for the meta server, which walks it. `rooted_links`: absolute links begin at the file system's root;
/// otherwise they end the walk (FileSystemOptions::link_prefix). kNotFound (empty), kNameTooLong, kInvalidArgument (a
/// NUL byte).
Result<wire::NamePath> to_name_path(const PathAt& where, bool rooted_links);

}  // namespace spate::posix
