// SPDX-License-Identifier: Apache-2.0
// Where: an object as the calls of POSIX name it: a directory and a path below it. And who may do what with it.
#pragma once

#include <string>

#include "model/attributes.h"
#include "wire/meta_messages.h"

namespace spate::posix {

/// A value. `base` stands for a directory descriptor, the working directory or the root, whichever the face has; a path
/// that begins with '/' starts at the root whatever `base` is.
struct Where {
  Handle base = kRootHandle;
  std::string path;
  bool follow = true;          // a symbolic link at the path's end
  bool empty_is_base = false;  // AT_EMPTY_PATH; else an empty path is kNotFound

  /// The object itself: what an inode number or an open descriptor stands for.
  static Where object(Handle handle) { return {handle, {}, true, true}; }
  /// One entry of a directory, never followed: what FUSE asks.
  static Where entry(Handle directory, std::string name) { return {directory, std::move(name), false, false}; }
};

/// The longest path that is taken, bytes; one more makes kNameTooLong. (PATH_MAX counts the NUL.)
constexpr std::size_t kLongestPath = kMaxPathBytes - 1;

/// What is sent to the meta server, which walks the path. `rooted_links`: absolute links begin at the file system's
/// root; else they end the walk (FileSystemOptions::link_prefix). kNotFound (empty), kNameTooLong, kInvalidArgument (a
/// NUL byte).
Result<wire::NamePath> to_name_path(const Where& where, bool rooted_links);

}  // namespace spate::posix
