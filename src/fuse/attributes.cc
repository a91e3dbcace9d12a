// SPDX-License-Identifier: Apache-2.0
// Requests on attributes: stat, chmod, chown, utimes, truncate, extended attributes, statfs.
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/codec.h"
#include "fuse/kernel_init.h"
#include "fuse/mount.h"
#include "fuse/setid_bits.h"
#include "posix/convert.h"
#include "wire/xattr_messages.h"

namespace spate::fuse {
namespace {

/// `timeout`: for how many seconds the kernel may keep the attributes.
void reply_attributes(fuse_req_t request, const Result<Attributes>& attributes, double timeout = 0) {
  if (!attributes) return reply_error(request, attributes.error());
  const struct stat out = to_stat(*attributes);
  answer([&] { return fuse_reply_attr(request, &out, timeout); });
}

Result<Attributes> attributes_of(Mount& mount, fuse_req_t request, fuse_ino_t inode) {
  if (auto kept = kept_attributes(node(inode))) return *std::move(kept);
  auto found = run(request, [&](client::Client& c) { return stat_node(c, inode); });
  if (found.code() == Errc::kStaleHandle) {
    if (const auto last = mount.directories.removed(Handle(inode))) return *last;
  }
  return found;
}

/// Replies with attributes that the kernel may keep. False: it may keep none, and no reply was sent.
bool reply_copy(Mount& mount, fuse_req_t request, fuse_ino_t inode) {
  const auto copy = mount.process.client().cluster().attributes().copy_attributes(Handle(inode));
  if (!copy) return false;
  const double timeout = mount.brief_copies != nullptr ? BriefCopies::kTimeout : seconds_of(copy->good_for);
  reply_attributes(request, copy->attributes, timeout);
  return true;
}

/// With attr_cache=kernel, the kernel keeps attributes only from the answer to this request. It ignores the attributes
/// if a notification in the meantime made it drop its copy.
void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
  Mount& mount = this_mount();
  if (reply_copy(mount, request, inode)) return;
  const auto found = attributes_of(mount, request, inode);
  if (found && reply_copy(mount, request, inode)) return;  // a lease came with them
  reply_attributes(request, found);
}

/// Whether the mode permits the access, if attributes alone tell. The rights of users other than root and the owner
/// also depend on groups and lists.
std::optional<bool> may_by_mode(const Credential& who, const Attributes& object, unsigned want) {
  constexpr std::uint32_t kAnyExecute = 0111;
  if (who.uid == 0)
    return (want & X_OK) == 0 || object.type == FileType::kDirectory || (object.mode & kAnyExecute) != 0;
  if (who.uid == object.uid) return (object.mode >> 6U & want) == want;
  return std::nullopt;
}

/// access(2) and chdir(2).
void access(fuse_req_t request, fuse_ino_t inode, int want) {
  reply_done(request, check_access(request, inode, static_cast<unsigned>(want)));
}

WallTime to_wall(const timespec& time) { return WallTime{time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec}; }

/// The changes that chmod, chown and utimensat request, without the size.
wire::SetattrRequest change_of(fuse_ino_t inode, const struct stat& wanted, int what) {
  wire::SetattrRequest change;
  change.where = node(inode);
  if ((what & FUSE_SET_ATTR_MODE) != 0) change.mode = wanted.st_mode & 07777U;
  if ((what & FUSE_SET_ATTR_UID) != 0) change.uid = wanted.st_uid;
  if ((what & FUSE_SET_ATTR_GID) != 0) change.gid = wanted.st_gid;
  change.atime_now = (what & FUSE_SET_ATTR_ATIME_NOW) != 0;
  change.mtime_now = (what & FUSE_SET_ATTR_MTIME_NOW) != 0;
  if ((what & FUSE_SET_ATTR_ATIME) != 0 && !change.atime_now) change.atime = to_wall(wanted.st_atim);
  if ((what & FUSE_SET_ATTR_MTIME) != 0 && !change.mtime_now) change.mtime = to_wall(wanted.st_mtim);
  return change;
}

Result<void> cut(fuse_req_t request, fuse_ino_t inode, const fuse_file_info* info, std::uint64_t size) {
  if (info != nullptr) {
    SPATE_TRY(const auto open, open_file(request, info->fh));
    auto done = run(request, [&](client::Client&) { return open->file->truncate(size); });
    if (!done || CurrentRequest::of_this_thread().abandoned()) this_mount().pages.spoil(open->handle);
    return done;
  }
  return run(request, [&](client::Client& c) { return c.truncate(node(inode), size); });
}

void setattr(fuse_req_t request, fuse_ino_t inode, struct stat* wanted, int what, fuse_file_info* info) {
  Mount& mount = this_mount();
  if ((what & FUSE_SET_ATTR_SIZE) != 0) {
    const bool kills = CurrentRequest::of_this_thread().hints().kills_rights;
    const auto cleared = kills ? clear_setid_bits(request, inode) : Result<void>();
    if (!cleared) return reply_error(request, cleared.error());
    const auto done = cut(request, inode, info, static_cast<std::uint64_t>(wanted->st_size));
    if (!done) return reply_error(request, done.error());
  }
  const wire::SetattrRequest change = change_of(inode, *wanted, what);
  if (change.mode || change.uid || change.gid || change.atime || change.mtime || change.atime_now || change.mtime_now) {
    const std::uint64_t request_id = CurrentRequest::of_this_thread().request_id();
    if (change.atime || change.atime_now) end_reads(mount, request, Handle(inode));
    if (mount.delegates) {
      const auto set = mount.process.client().cluster().queued().set(change, request_id);
      if (set) return reply_attributes(request, *set);
    }
    return reply_attributes(request, run(request, [&](client::Client& c) { return c.setattr(change); }));
  }
  reply_attributes(request, attributes_of(mount, request, inode));
}

void statfs(fuse_req_t request, fuse_ino_t) {
  const auto use = run(request, [](client::Client& c) { return c.statfs(); });
  if (!use) return reply_error(request, use.error());
  const struct statvfs out = posix::to_statvfs(*use);
  answer([&] { return fuse_reply_statfs(request, &out); });
}

/// Whether a name of this kind cannot exist. The kernel asks for security.* before writes.
bool is_foreign(std::string_view name) { return name.starts_with("security."); }

void reply_bytes(fuse_req_t request, ByteView value, std::size_t room) {
  if (room == 0) {
    answer([&] { return fuse_reply_xattr(request, value.size()); });
  } else if (room < value.size()) {
    answer([&] { return fuse_reply_err(request, ERANGE); });
  } else {
    answer([&] { return fuse_reply_buf(request, reinterpret_cast<const char*>(value.data()), value.size()); });
  }
}

void getxattr(fuse_req_t request, fuse_ino_t inode, const char* name, std::size_t room) {
  if (is_foreign(name)) {
    answer([&] { return fuse_reply_err(request, EOPNOTSUPP); });
    return;
  }
  const auto value = run(request, [&](client::Client& c) { return c.getxattr(node(inode), name); });
  if (!value) return reply_error(request, value.error());
  reply_bytes(request, *value, room);
}

constexpr std::string_view kAccessAcl = "system.posix_acl_access";
constexpr std::string_view kDefaultAcl = "system.posix_acl_default";

/// The permission bits that say the same as an access control list. Nothing: the list says more, or is none.
std::optional<std::uint32_t> permissions_of(ByteView list) {
  constexpr std::uint32_t kVersion = 2;
  constexpr std::size_t kBytes = 4 + 3 * 8;
  Decoder in(list);
  if (list.size() != kBytes || in.u32() != kVersion) return std::nullopt;
  std::uint32_t permissions = 0;
  for (const int tag : {1, 4, 32}) {  // owner, owning group, others
    if (in.u16() != tag) return std::nullopt;
    const std::uint32_t rights = in.u16();
    if (rights > 7) return std::nullopt;
    permissions = permissions << 3U | rights;
    std::ignore = in.u32();  // an id that means nothing here
  }
  return permissions;
}

bool set_permissions_queued(Mount& mount, Handle object, std::optional<std::uint32_t> permissions) {
  if (!mount.delegates || mount.copies != nullptr) return false;
  client::QueuedChanges& queued = mount.process.client().cluster().queued();
  const auto done =
      queued.answers().set_permissions(object, permissions, CurrentRequest::of_this_thread().request_id());
  return done.has_value() && done->has_value();
}

/// cp -a gives each file such a list.
bool set_list_queued(Mount& mount, const wire::SetxattrRequest& set) {
  if (set.name != kAccessAcl) return false;
  const auto permissions = permissions_of(set.value);
  return permissions && set_permissions_queued(mount, set.where.start, permissions);
}

/// Whether an access control list that the caller sets clears setgid. If the mount is for one user, the servers decide
/// that. If others may use it, the kernel tells it, but only if it respects lists.
Result<bool> kills_setgid(fuse_req_t request, fuse_ino_t inode) {
  const MountOptions& options = this_mount().options;
  if (!checked_by_kernel(options)) return false;
  if (options.acl && kernel_init_of(this_mount().handover).has(kTellsOfSetgid))
    return CurrentRequest::of_this_thread().hints().kills_setgid;
  const CurrentRequest::Caller caller = CurrentRequest::of_this_thread().caller();
  if (caller.uid == 0) return false;
  std::array<gid_t, kMaxGroups> groups{};
  const int known = fuse_req_getgroups(request, static_cast<int>(groups.size()), groups.data());
  SPATE_TRY(const Attributes object, attributes_of(this_mount(), request, inode));
  gid_t* const end = groups.data() + std::clamp(known, 0, static_cast<int>(groups.size()));
  return caller.gid != object.gid && std::find(groups.data(), end, object.gid) == end;
}

void setxattr(fuse_req_t request, fuse_ino_t inode, const char* name, const char* value, std::size_t size, int flags) {
  wire::SetxattrRequest set;
  set.where = node(inode);
  set.name = name;
  set.value = to_bytes(as_bytes(std::string_view(value, size)));
  set.flags = static_cast<std::uint8_t>(flags & 3);  // XATTR_CREATE, XATTR_REPLACE
  if (set_list_queued(this_mount(), set)) return reply_done(request, {});
  static_assert(wire::kXattrCreate == 1 && wire::kXattrReplace == 2, "setxattr's own bits");
  if (set.name == kAccessAcl) {
    const auto kills = kills_setgid(request, inode);
    if (!kills) return reply_error(request, kills.error());
    if (*kills) set.flags |= wire::kXattrKillSetgid;
  }
  reply_done(request, run(request, [&](client::Client& c) { return c.setxattr(set); }));
}

void listxattr(fuse_req_t request, fuse_ino_t inode, std::size_t room) {
  const auto names = run(request, [&](client::Client& c) { return c.listxattr(node(inode)); });
  if (!names) return reply_error(request, names.error());
  std::string all;
  for (const std::string& name : *names) all.append(name).push_back('\0');
  reply_bytes(request, as_bytes(all), room);
}

void removexattr(fuse_req_t request, fuse_ino_t inode, const char* name) {
  if (name == kDefaultAcl && set_permissions_queued(this_mount(), Handle(inode), {})) return reply_done(request, {});
  reply_done(request, run(request, [&](client::Client& c) { return c.removexattr(node(inode), name); }));
}

}  // namespace

job::Task<Result<Attributes>> stat_at(client::Client& client, wire::NamePath where) {
  SPATE_CO_TRY(auto found, co_await client.stat(std::move(where)));
  co_return found.attributes;
}

Result<void> check_access(fuse_req_t request, fuse_ino_t inode, unsigned want) {
  want &= R_OK | W_OK | X_OK;
  const auto kept = kept_attributes(node(inode));
  if (kept && *kept) {
    const auto may = may_by_mode(this_mount().credential, **kept, want);
    if (may) return *may ? Result<void>() : Errc::kPermissionDenied;
  }
  const auto found =
      run(request, [&](client::Client& c) { return c.access(node(inode), static_cast<std::uint8_t>(want)); });
  return found ? Result<void>() : found.error();
}

void add_attribute_operations(fuse_lowlevel_ops& operations) {
  operations.getattr = getattr;
  operations.access = access;
  operations.setattr = setattr;
  operations.statfs = statfs;
  operations.getxattr = getxattr;
  operations.setxattr = setxattr;
  operations.listxattr = listxattr;
  operations.removexattr = removexattr;
}

}  // namespace spate::fuse
