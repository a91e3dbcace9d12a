// SPDX-License-Identifier: Apache-2.0
#include "server/meta/names/objects.h"

#include "server/meta/core/core.h"
#include "server/meta/store/access.h"
#include "server/meta/store/acl.h"
#include "server/meta/store/keys.h"

namespace spate::meta {
namespace {

constexpr std::size_t kXattrsAtOnce = 256;

/// The group of a new object: the one that the request asks for, the setgid directory's, or the caller's.
Result<std::uint32_t> new_group(const Credential& who, const Attributes& directory, const wire::NewAttributes& params) {
  const bool inherits = (directory.mode & kSetGid) != 0;
  const std::uint32_t usual = inherits ? directory.gid : who.gid;
  if (inherits && (params.mode & wire::NewAttributes::kOnBehalf) != 0) return usual;
  if (!params.gid || *params.gid == usual) return usual;
  if (!is_root(who) && !in_group(who, *params.gid)) return Errc::kNotPermitted;
  return *params.gid;
}

/// Clears setgid of a program whose group its creator is not in. Otherwise the program would lend rights that its
/// creator does not have.
std::uint32_t safe_mode(const Credential& who, const Attributes& object, const Attributes& directory) {
  if (object.type == FileType::kDirectory) return object.mode | (directory.mode & kSetGid);
  const bool program = (object.mode & (kSetGid | kGroupExecute)) == (kSetGid | kGroupExecute);
  if (program && !is_root(who) && !in_group(who, object.gid)) return object.mode & ~kSetGid;
  return object.mode;
}

}  // namespace

void touch(InodeRecord& inode, WallTime now) {
  inode.attributes.ctime = now;
  ++inode.attributes.version;
}

void touch_entries(InodeRecord& directory, WallTime now, int more, int directories) {
  touch(directory, now);
  directory.attributes.mtime = now;
  ++directory.entries_version;
  directory.attributes.size += static_cast<std::uint64_t>(static_cast<std::int64_t>(more));
  directory.attributes.link_count += static_cast<std::uint32_t>(directories);
}

Result<void> check_addable(const PathEnd& place) {
  if (place.last != PathEnd::Last::kName) return Errc::kExists;
  return {};
}

/// In a large directory, inodes lie in the store in about the order of a listing, so that a listing reads neighbours.
/// In order of creation, each one would lie in a block of its own. A small directory is read as a whole, so its inodes
/// stay in order of creation.
std::uint64_t place_of(Operation& operation, const InodeRecord& directory, std::string_view name) {
  constexpr std::uint64_t kLargeDirectory = 4096;  // entries: some 200 blocks of inodes
  if (name.empty() || directory.attributes.size < kLargeDirectory) return 0;
  return operation.core().name_hash()(name) >> (63U - kPlaceBits);
}

job::Task<Result<InodeRecord>> make_object(Operation& operation, const InodeRecord& directory, NewObject params) {
  const Credential& who = operation.who();
  const wire::NewAttributes& asked = params.attributes;
  const std::uint32_t umask = (asked.mode >> wire::NewAttributes::kUmaskShift) & 0777U;
  const std::uint32_t mode =
      asked.mode & ~(wire::NewAttributes::kOnBehalf | (umask << wire::NewAttributes::kUmaskShift));
  if (mode > 07777) co_return Error::told(Errc::kInvalidArgument, "mode bits beyond 07777");
  if (asked.uid && *asked.uid != who.uid && !is_root(who)) co_return Errc::kNotPermitted;
  InodeRecord object;
  Attributes& a = object.attributes;
  a.type = params.type;
  a.uid = asked.uid.value_or(who.uid);
  SPATE_CO_TRY(a.gid, new_group(who, directory.attributes, asked));
  a.project = directory.attributes.project;
  a.mode = mode;
  inherit_acl(directory, object, umask);
  a.mode = safe_mode(who, a, directory.attributes);
  a.ctime = a.btime = operation.now();
  a.atime = asked.atime.value_or(operation.now());
  a.mtime = asked.mtime.value_or(operation.now());
  a.version = 1;
  if (object.is_directory() || !params.name.empty()) object.parent = directory.handle();
  if (object.is_directory()) {
    a.link_count = 2;
    object.hints = directory.hints;
  }
  a.handle = operation.made_at_client().take_handle();
  if (a.handle) {
    SPATE_CO_TRY(std::ignore, operation.core().check_space());
  } else {
    SPATE_CO_TRY(const Handle handle, co_await operation.core().new_handle(operation.call().stop));
    a.handle = Handle(handle.value | place_of(operation, directory, params.name) << kPlaceShift);
  }
  operation.deferred().count_object(1);
  if (operation.confinement() != nullptr) operation.confinement()->made(a.handle);
  if (object.is_directory()) operation.core().name_filter().made(a.handle);
  co_return object;
}

Result<void> add_object(Operation& operation, NamedEntry& named, std::string_view name, const InodeRecord& object) {
  InodeRecord& directory = named.directory;
  if (!may(operation.who(), directory, kWantWrite)) return Errc::kPermissionDenied;
  touch_entries(directory, operation.now(), 1, object.is_directory() ? 1 : 0);
  operation.put(directory);
  operation.put_entry(directory.handle(), name, EntryRecord{object.handle(), object.attributes.type});
  operation.put(object);
  return {};
}

job::Task<Result<bool>> is_open(Operation& operation, Handle handle) {
  const trove::KeyRange range = opens_of(handle);
  // A read of a range costs the store ten times as much as one of a key, and most files that lose their last name are
  // not open.
  if (!operation.core().parts().opens->may_be_open(handle)) {
    operation.store().note_range_read(range.begin, range.end);
    co_return false;
  }
  const auto read = co_await operation.store().range(range);
  if (read.status != Errc::kOk) co_return read.status;
  co_return !read.entries.empty();
}

void gain_name(InodeRecord& object, Handle directory) {
  const bool first = object.attributes.link_count++ == 0;
  if (first) {
    object.parent = directory;
  } else if (object.parent && !object.second_parent) {
    object.second_parent = directory;
  }
}

/// If an object has two names, both are known. If there are more, a directory may have other names of the object than
/// those that the inode knows: then only a search would tell.
void lose_name(InodeRecord& object, Handle directory) {
  --object.attributes.link_count;
  if (object.second_parent == directory) {
    object.second_parent = Handle();
  } else if (object.parent == directory) {
    object.parent = std::exchange(object.second_parent, Handle());
  }
}

void move_name(InodeRecord& object, Handle from, Handle to) {
  if (object.attributes.link_count == 1) {  // also if its parent was unknown
    object.parent = to;
    object.second_parent = Handle();
  } else if (object.second_parent == from) {
    object.second_parent = to;
  } else if (object.parent == from) {
    object.parent = to;
  }
}

job::Task<Result<void>> drop_link(Operation& operation, InodeRecord& object, Handle directory) {
  SPATE_CHECK(!object.is_directory());
  if (object.attributes.link_count == 0) co_return Error(Errc::kCorrupt, "a name of an object without names");
  lose_name(object, directory);
  touch(object, operation.now());
  if (object.attributes.link_count == 0) {
    SPATE_CO_TRY(const bool open, co_await is_open(operation, object.handle()));
    if (!open) {
      auto removed = co_await remove_object(operation, object);
      co_return removed;
    }
  }
  operation.put(object);
  co_return {};
}

job::Task<Result<void>> remove_object(Operation& operation, InodeRecord object) {
  const Handle handle = object.handle();
  operation.erase(inode_key(handle));
  operation.deferred().count_object(-1);
  for (bool more = object.xattr_count > 0; more;) {
    trove::KeyRange range = xattrs_of(handle);
    range.limit = kXattrsAtOnce;
    const auto read = co_await operation.store().range(range);
    if (read.status != Errc::kOk) co_return read.status;
    for (const trove::KeyValue& xattr : read.entries) operation.erase(xattr.key);
    more = read.more;
  }
  if (object.may_have_data()) {
    operation.put(removal_key(handle), RemovalRecord{*std::move(object.layout), operation.now()});
    operation.deferred().when_committed(
        [removals = operation.core().parts().removals, handle] { removals->added(handle); });
  }
  co_return {};
}

}  // namespace spate::meta
