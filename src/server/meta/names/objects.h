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
/// sub-directories, of which each counts as a link. Also sets times and versions.
void touch_entries(InodeRecord& directory, WallTime now, int more, int directories);

/// The error of changing a last component that is no name ('.', '..', the start itself) when adding: kExists.
Result<void> check_addable(const PathEnd& place);

struct NewObject {
  FileType type = FileType::kRegular;
  const wire::NewAttributes& attributes;
  std::string_view name;  // that it will have in the directory; empty: none yet
};
/// An inode with a fresh handle in `directory` (whose group and setgid bit it inherits): neither put nor entered. Its
/// layout or target is still to be set. kNotPermitted: an owner or group that the caller may not give;
/// kInvalidArgument: a mode beyond 07777.
job::Task<Result<InodeRecord>> make_object(Operation& operation, const InodeRecord& directory, NewObject params);

/// Adds `object` to `named.directory` as `name` and puts both and the entry. kPermissionDenied when the caller may not
/// write the directory.
Result<void> add_object(Operation& operation, NamedEntry& named, std::string_view name, const InodeRecord& object);

/// Takes one name from an object that is not a directory; puts or removes the object. A file that is still open stays,
/// without a name, until its last close.
job::Task<Result<void>> drop_link(Operation& operation, InodeRecord& object);

/// Erases the inode and its xattrs, and queues a regular file's datafiles for removal. Nobody may have it open.
job::Task<Result<void>> remove_object(Operation& operation, InodeRecord object);

/// Some session has it open.
job::Task<Result<bool>> is_open(Operation& operation, Handle handle);

}  // namespace spate::meta
