// SPDX-License-Identifier: Apache-2.0
// Paths: from a NamePath to an object, or to the directory and the name that an operation is about to change.
#pragma once

#include "server/meta/core/operation.h"
#include "wire/meta_messages.h"

namespace spate::meta {

/// Directories above one another: nobody makes more, so a longer chain goes round in circles.
inline constexpr std::size_t kDeepest = 1U << 20U;

/// Where a path ends: its last component, not yet looked up.
struct Place {
  enum class Last : std::uint8_t {
    kName,
    kDot,
    kDotDot,
    kStart,  // no component at all: the directory itself
  };
  Handle directory;  // in which `name` stands; for kStart the object itself
  std::string name;  // of kName: 1..kMaxNameBytes bytes
  Last last = Last::kStart;
  bool slash = false;  // a slash after it: it must be a directory
};

/// Walks one path. Directories on the way must be directories and searchable by the caller; they are read in the
/// operation's transaction but not checked at its commit, so that changes in them do not disturb whoever passes
/// through. The names on the way are checked: a change by a path that a rename has ended meanwhile runs again. Symbolic
/// links on the way are followed, kMaxSymlinkDepth of them in all. Lives no longer than its operation's run.
class Walker {
 public:
  Walker(Operation& operation, const wire::NamePath& where);

  /// Up to the last component. kNameTooLong, kNotFound, kNotDirectory, kPermissionDenied, kSymlinkLoop, kStaleHandle
  /// (the start is gone), kInvalidArgument (a NUL byte); kCrossDevice for an absolute link without kRootedLinks, with
  /// the link's target and what follows it in the path as context.
  job::Task<Result<Place>> to_last();
  /// The same for who has more to look at before the length of the last component: it may be longer than a name can be.
  job::Task<Result<Place>> to_last_of_any_length();
  /// The object at `place` turned out to be this link and is to be followed: to_last() goes on from there.
  Result<void> follow(const Place& place, const InodeRecord& link);

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

/// The object that `where` leads to, checked at commit. Besides the Walker's errors kNotFound.
job::Task<Result<InodeRecord>> walk(Operation& operation, wire::NamePath where);

/// A name about to be added, removed or replaced.
struct NamedEntry {
  InodeRecord directory;             // locked; checked at commit; searchable by the caller
  std::optional<EntryRecord> entry;  // checked at commit, absence too
};

/// Locks the directory of `place` (which is a kName) and looks the name up.
job::Task<Result<NamedEntry>> entry_for_change(Operation& operation, Place place);
/// The inode behind an entry just read; kCorrupt when there is none.
job::Task<Result<InodeRecord>> inode_of(Operation& operation, EntryRecord entry, trove::ReadMode mode);

/// kNotDirectory, kPermissionDenied.
Result<void> check_searchable(const Credential& who, const InodeRecord& directory);

}  // namespace spate::meta
