// SPDX-License-Identifier: Apache-2.0
// Steps that operations share: create an object, touch it, remove one of its names, remove it.
#pragma once

#include "server/meta/core/operation.h"
#include "server/meta/core/walk.h"
#include "wire/meta_messages.h"

namespace spate::meta {

/// The object's metadata has changed: sets ctime and version.
void touch(InodeRecord& inode, WallTime now);
/// An entry of the directory was added (`more` = 1), replaced (0) or removed (-1). `directories`: the same for
/// sub-directories, each of which counts as a link. Also sets times and versions.
void touch_entries(InodeRecord& directory, WallTime now, int more, int directories);

/// Fails with kExists if the last component cannot be added because it is no name ('.', '..', the start itself).
Result<void> check_addable(const PathEnd& place);

struct NewObject {
  FileType type = FileType::kRegular;
  const wire::NewAttributes& attributes;
  std::string_view name;  // its future name in the directory; empty: none yet
};
/// Makes an inode with a fresh handle in `directory`, from which it inherits the group and the setgid bit. The inode is
/// neither put nor entered. The caller still sets its layout or target. kNotPermitted: an owner or group that the
/// caller may not assign; kInvalidArgument: a mode beyond 07777.
job::Task<Result<InodeRecord>> make_object(Operation& operation, const InodeRecord& directory, NewObject params);

/// Adds `object` to `named.directory` as `name`, and puts both and the entry. kPermissionDenied if the caller may not
/// write the directory.
Result<void> add_object(Operation& operation, NamedEntry& named, std::string_view name, const InodeRecord& object);

/// An object that is not a directory gets a name in `directory`, loses one there, or has one moved. Sets its link count
/// and its parents.
void gain_name(InodeRecord& object, Handle directory);
void lose_name(InodeRecord& object, Handle directory);
void move_name(InodeRecord& object, Handle from, Handle to);

/// Removes one name, in `directory`, of an object that is not a directory; puts or removes the object. A file that is
/// still open stays, without a name, until its last close.
job::Task<Result<void>> drop_link(Operation& operation, InodeRecord& object, Handle directory);

/// Erases the inode and its xattrs, and queues a regular file's datafiles for removal. No session may have it open.
job::Task<Result<void>> remove_object(Operation& operation, InodeRecord object);

/// Whether some session has it open.
job::Task<Result<bool>> is_open(Operation& operation, Handle handle);

}  // namespace spate::meta
