// SPDX-License-Identifier: Apache-2.0
// Paths: from a NamePath to an object, or to the directory and the name that an operation is about to change.
#pragma once

#include "server/meta/core/operation.h"
#include "wire/meta_messages.h"

namespace spate::meta {

/// The end of a path: its last component, before it is looked up.
struct PathEnd {
  enum class Last : std::uint8_t {
    kName,
    kDot,
    kDotDot,
    kStart,  // no component: the starting directory itself
  };
  Handle directory;  // the directory of `name`; for kStart the object itself
  std::string name;  // of kName: 1..kMaxNameBytes bytes
  Last last = Last::kStart;
  bool slash = false;  // a slash follows: the component must be a directory
};

/// Walks one path. Every component but the last must be a directory that the caller may search, or a symbolic link to
/// one. The directories are read in the operation's transaction but not checked at its commit, so that changes in them
/// do not disturb walks through them. The names are checked: if a rename ends the path meanwhile, the operation runs
/// again. The walker follows symbolic links on the way, at most kMaxSymlinkDepth in all. It lives no longer than its
/// operation's run.
class Walker {
 public:
  Walker(Operation& operation, const wire::NamePath& where);

  /// Walks up to the last component. kNameTooLong, kNotFound, kNotDirectory, kPermissionDenied, kSymlinkLoop,
  /// kStaleHandle (the start is gone), kInvalidArgument (a NUL byte); kCrossDevice for an absolute link without
  /// kRootedLinks, with the link's target and what follows it in the path as context.
  job::Task<Result<PathEnd>> to_last();
  /// The same for a caller that must check something else before the length of the last component: the component may be
  /// longer than kMaxNameBytes.
  job::Task<Result<PathEnd>> to_last_of_any_length();
  /// Call it when the object at `place` is this link and the operation follows it. The next to_last() continues from
  /// there.
  Result<void> follow(const PathEnd& place, const InodeRecord& link);

 private:
  enum class Step : std::uint8_t { kEnd, kLast, kMore };
  Step next_component(std::string& component);
  job::Task<Result<void>> enter(std::string component);
  Result<void> substitute(Handle directory, const InodeRecord& link);

  Operation& operation_;
  Handle at_;
  std::string path_;
  std::size_t position_ = 0;
  bool rooted_links_ = false;
  bool flags_known_ = true;
  unsigned links_ = 0;
};

/// The object that `where` leads to, checked at commit. Fails with the Walker's errors and kNotFound. `reach` is that
/// of the object; the caller may pass what is on the way in any case.
job::Task<Result<InodeRecord>> walk(Operation& operation, wire::NamePath where, Reach reach = Reach::kInside);

/// A name that an operation is about to add, remove or replace.
struct NamedEntry {
  InodeRecord directory;             // locked; checked at commit; searchable by the caller
  std::optional<EntryRecord> entry;  // checked at commit, also when absent
};

/// kPermissionDenied if the caller's key is confined to a directory, and this object is not inside. Call it before the
/// object is locked.
job::Task<Result<void>> admit_inside(Operation& operation, Handle object);

/// Locks the directory of `place` (whose kind is kName) and looks the name up.
job::Task<Result<NamedEntry>> entry_for_change(Operation& operation, PathEnd place);
/// The inode of an entry that was just read; kCorrupt if there is none.
job::Task<Result<InodeRecord>> inode_of(Operation& operation, EntryRecord entry, trove::ReadMode mode,
                                        Reach reach = Reach::kInside);

}  // namespace spate::meta
