// SPDX-License-Identifier: Apache-2.0
// Attributes: the stat family, access, chmod, chown, times, statfs, extended attributes.
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <utime.h>

#include <cstring>

#include "posix/convert.h"
#include "preload/calls.h"

namespace spate::preload {
namespace {

using posix::FileSystem;
using posix::PathAt;

constexpr long kFileSystemMagic = 0x53504154;  // statfs: "SPAT"

/// The object of a call: one that a path leads to, or an open file.
struct Object {
  Mount* mount = nullptr;
  PathAt where;
  DescriptionRef opened;
};

/// `empty`: the call has AT_EMPTY_PATH, or its path may be null.
Result<Object> object_of(Frame& f, PathArguments path, bool follow, bool empty) {
  SPATE_TRY(ResolvedPath place, locate(f, path, follow, empty));
  return Object{place.mount, std::move(place.where), std::move(place.opened)};
}

Result<Attributes> attributes_of(Object& object) {
  if (object.opened != nullptr) return object.opened->run([](posix::OpenFile& file) { return file.stat(); });
  if (auto kept = object.mount->kept_attributes(object.where)) return *std::move(kept);
  return object.mount->run([&](FileSystem& files) { return files.stat(object.where); });
}

/// Runs the stat of a path and passes its attributes to `fill(attributes, mount)`.
template <typename Fill>
Reply stat_path(Frame& f, PathArguments path, int flags, const Fill& fill) {
  const bool empty = (flags & AT_EMPTY_PATH) != 0 || memory<const char>(f, path.path) == nullptr;
  auto object = object_of(f, path, (flags & AT_SYMLINK_NOFOLLOW) == 0, empty);
  if (!object) return refuse(object.error());
  if (object->mount == nullptr) return kToKernel;
  auto attributes = attributes_of(*object);
  if (!attributes && leads_out(attributes.error())) {
    redirect(f, path, attributes.error().context());
    return kToKernel;
  }
  if (!attributes) return refuse(attributes.error());
  fill(*attributes, *object->mount);
  return 0;
}

Reply stat_into(Frame& f, PathArguments path, int out, int flags) {
  auto* const st = memory<struct stat>(f, out);
  return stat_path(f, path, flags, [&](const Attributes& a, Mount& mount) { fill_stat(st, a, mount); });
}

statx_timestamp to_statx_time(WallTime time) {
  const timespec t = posix::to_timespec(time);
  return {t.tv_sec, static_cast<__u32>(t.tv_nsec), 0};
}

void fill_statx(struct statx* out, const Attributes& a, Mount& mount) {
  struct stat st{};
  fill_stat(&st, a, mount);
  *out = {};
  out->stx_mask = STATX_BASIC_STATS | STATX_BTIME;
  out->stx_blksize = static_cast<__u32>(st.st_blksize);
  out->stx_nlink = static_cast<__u32>(st.st_nlink);
  out->stx_uid = st.st_uid;
  out->stx_gid = st.st_gid;
  out->stx_mode = static_cast<__u16>(st.st_mode);
  out->stx_ino = st.st_ino;
  out->stx_size = static_cast<__u64>(st.st_size);
  out->stx_blocks = static_cast<__u64>(st.st_blocks);
  out->stx_atime = to_statx_time(a.atime);
  out->stx_mtime = to_statx_time(a.mtime);
  out->stx_ctime = to_statx_time(a.ctime);
  out->stx_btime = to_statx_time(a.btime);
  out->stx_rdev_major = major(st.st_rdev);
  out->stx_rdev_minor = minor(st.st_rdev);
  out->stx_dev_major = major(st.st_dev);
  out->stx_dev_minor = minor(st.st_dev);
}

Reply stat(Frame& f) { return stat_into(f, kPlain, 1, 0); }
Reply lstat(Frame& f) { return stat_into(f, kPlain, 1, AT_SYMLINK_NOFOLLOW); }
Reply newfstatat(Frame& f) { return stat_into(f, kAtPath, 2, fd(f, 3)); }
Reply fstat(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 0));
  return d == nullptr ? kToKernel : stat_description(*d, memory<struct stat>(f, 1));
}
Reply statx(Frame& f) {
  auto* const out = memory<struct statx>(f, 4);
  return stat_path(f, kAtPath, fd(f, 2), [&](const Attributes& a, Mount& mount) { fill_statx(out, a, mount); });
}

Reply access_path(Frame& f, PathArguments path, int wanted, int flags) {
  auto object = object_of(f, path, (flags & AT_SYMLINK_NOFOLLOW) == 0, (flags & AT_EMPTY_PATH) != 0);
  if (!object) return refuse(object.error());
  if (object->mount == nullptr) return kToKernel;
  auto may = object->mount->run([&](FileSystem& files) { return files.access(object->where, wanted); });
  if (!may && leads_out(may.error())) {
    redirect(f, path, may.error().context());
    return kToKernel;
  }
  return done(may);
}

Reply access(Frame& f) { return access_path(f, kPlain, fd(f, 1), 0); }
Reply faccessat(Frame& f) { return access_path(f, kAtPath, fd(f, 2), 0); }
Reply faccessat2(Frame& f) { return access_path(f, kAtPath, fd(f, 2), fd(f, 3)); }

/// Applies `request` to the object that a path leads to.
Reply set_path(Frame& f, PathArguments path, int flags, const wire::SetattrRequest& request) {
  const bool empty = (flags & AT_EMPTY_PATH) != 0 || memory<const char>(f, path.path) == nullptr;
  auto object = object_of(f, path, (flags & AT_SYMLINK_NOFOLLOW) == 0, empty);
  if (!object) return refuse(object.error());
  if (object->mount == nullptr) return kToKernel;
  auto set = object->mount->run([&](FileSystem& files) { return files.set_attributes(object->where, request); });
  if (!set && leads_out(set.error())) {
    redirect(f, path, set.error().context());
    return kToKernel;
  }
  return done(set);
}

Reply set_open(Frame& f, const wire::SetattrRequest& request) {
  const DescriptionRef d = description_of(fd(f, 0));
  if (d == nullptr) return kToKernel;
  if ((d->flags() & O_PATH) != 0) return minus(EBADF);
  const PathAt object = PathAt::object(d->handle());
  return done(d->mount().run([&](FileSystem& files) { return files.set_attributes(object, request); }));
}

wire::SetattrRequest with_mode(long mode) {
  wire::SetattrRequest request;
  request.mode = static_cast<std::uint32_t>(mode) & 07777U;
  return request;
}

wire::SetattrRequest with_owner(long uid, long gid) {
  wire::SetattrRequest request;
  if (static_cast<std::uint32_t>(uid) != UINT32_MAX) request.uid = static_cast<std::uint32_t>(uid);
  if (static_cast<std::uint32_t>(gid) != UINT32_MAX) request.gid = static_cast<std::uint32_t>(gid);
  return request;
}

Reply chmod(Frame& f) { return set_path(f, kPlain, 0, with_mode(f.word[1])); }
Reply fchmod(Frame& f) { return set_open(f, with_mode(f.word[1])); }
Reply fchmodat(Frame& f) { return set_path(f, kAtPath, 0, with_mode(f.word[2])); }
Reply chown(Frame& f) { return set_path(f, kPlain, 0, with_owner(f.word[1], f.word[2])); }
Reply lchown(Frame& f) { return set_path(f, kPlain, AT_SYMLINK_NOFOLLOW, with_owner(f.word[1], f.word[2])); }
Reply fchown(Frame& f) { return set_open(f, with_owner(f.word[1], f.word[2])); }
Reply fchownat(Frame& f) { return set_path(f, kAtPath, fd(f, 4), with_owner(f.word[2], f.word[3])); }

Reply set_times(Frame& f, PathArguments path, const timespec* times, int flags) {
  wire::SetattrRequest request;
  const auto valid = posix::set_times(times, request);
  if (!valid) return refuse(valid.error());
  return set_path(f, path, flags, request);
}

Reply utimensat(Frame& f) { return set_times(f, kAtPath, memory<const timespec>(f, 2), fd(f, 3)); }

Reply set_microseconds(Frame& f, PathArguments path, const timeval* times) {
  if (times == nullptr) return set_times(f, path, nullptr, 0);
  timespec exact[2];
  for (int i = 0; i < 2; ++i) exact[i] = {times[i].tv_sec, times[i].tv_usec * 1000};
  return set_times(f, path, exact, 0);
}

Reply utimes(Frame& f) { return set_microseconds(f, kPlain, memory<const timeval>(f, 1)); }
Reply futimesat(Frame& f) { return set_microseconds(f, kAtPath, memory<const timeval>(f, 2)); }
Reply utime(Frame& f) {
  const auto* const times = memory<const utimbuf>(f, 1);
  if (times == nullptr) return set_times(f, kPlain, nullptr, 0);
  const timespec exact[2] = {{times->actime, 0}, {times->modtime, 0}};
  return set_times(f, kPlain, exact, 0);
}

job::Task<Result<client::SpaceUse>> space_at(FileSystem& files, PathAt where) {
  SPATE_CO_TRY(std::ignore, co_await files.stat(std::move(where)));
  auto use = co_await files.statfs();
  co_return use;
}

Reply fill_statfs(struct statfs* out, const Result<client::SpaceUse>& use) {
  if (!use) return refuse(use.error());
  const struct statvfs st = posix::to_statvfs(*use);
  *out = {};
  out->f_type = kFileSystemMagic;
  out->f_bsize = static_cast<__fsword_t>(st.f_bsize);
  out->f_frsize = static_cast<__fsword_t>(st.f_frsize);
  out->f_blocks = st.f_blocks;
  out->f_bfree = st.f_bfree;
  out->f_bavail = st.f_bavail;
  out->f_files = st.f_files;
  out->f_ffree = st.f_ffree;
  out->f_namelen = static_cast<__fsword_t>(st.f_namemax);
  return 0;
}

Reply statfs(Frame& f) {
  auto* const out = memory<struct statfs>(f, 1);
  return on_path(f, kPlain, true, space_at, [&](const auto& use) { return fill_statfs(out, use); });
}

Reply fstatfs(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 0));
  return d == nullptr ? kToKernel
                      : fill_statfs(memory<struct statfs>(f, 1),
                                    d->mount().run([](FileSystem& files) { return files.statfs(); }));
}

/// Runs `make(files, where)` on the object of an xattr call: that of a path or, with `descriptor`, an open file.
template <typename Make, typename ReplyOf>
Reply on_xattr(Frame& f, bool descriptor, bool follow, const Make& make, const ReplyOf& reply) {
  if (!descriptor) return on_path(f, kPlain, follow, make, reply);
  const DescriptionRef d = description_of(fd(f, 0));
  if (d == nullptr) return kToKernel;
  if ((d->flags() & O_PATH) != 0) return minus(EBADF);
  return reply(d->mount().run([&](FileSystem& files) { return make(files, PathAt::object(d->handle())); }));
}

Reply copy_value(std::string_view value, char* out, std::size_t room) {
  if (room == 0) return static_cast<long>(value.size());
  if (value.size() > room) return minus(ERANGE);
  std::memcpy(out, value.data(), value.size());
  return static_cast<long>(value.size());
}

Reply get_value(Frame& f, bool descriptor, bool follow) {
  const std::string name = memory<const char>(f, 1);
  const auto copied = [&](const Result<Bytes>& value) {
    if (!value) return refuse(value.error());
    return copy_value({reinterpret_cast<const char*>(value->data()), value->size()}, memory<char>(f, 2),
                      static_cast<std::size_t>(f.word[3]));
  };
  return on_xattr(
      f, descriptor, follow, [&](FileSystem& files, PathAt where) { return files.getxattr(std::move(where), name); },
      copied);
}

Reply set_value(Frame& f, bool descriptor, bool follow) {
  const std::string name = memory<const char>(f, 1);
  const auto size = static_cast<std::size_t>(f.word[3]);
  if (size > kMaxXattrValueBytes) return minus(E2BIG);
  const auto* const data = memory<const std::byte>(f, 2);
  const Bytes value(data, data + size);
  const int flags = fd(f, 4);
  return on_xattr(
      f, descriptor, follow,
      [&](FileSystem& files, PathAt where) { return files.setxattr(std::move(where), name, value, flags); }, kDone);
}

Reply list_values(Frame& f, bool descriptor, bool follow) {
  const auto copied = [&](const Result<std::vector<std::string>>& names) {
    if (!names) return refuse(names.error());
    std::string all;
    for (const std::string& name : *names) all.append(name).push_back('\0');
    return copy_value(all, memory<char>(f, 1), static_cast<std::size_t>(f.word[2]));
  };
  return on_xattr(
      f, descriptor, follow, [](FileSystem& files, PathAt where) { return files.listxattr(std::move(where)); }, copied);
}

Reply remove_value(Frame& f, bool descriptor, bool follow) {
  const std::string name = memory<const char>(f, 1);
  return on_xattr(
      f, descriptor, follow, [&](FileSystem& files, PathAt where) { return files.removexattr(std::move(where), name); },
      kDone);
}

template <Reply (*Call)(Frame&, bool, bool), bool Descriptor, bool Follow>
Reply xattr(Frame& f) {
  return Call(f, Descriptor, Follow);
}

Handler xattr_handler(long number) {
  switch (number) {
    case SYS_getxattr: return xattr<get_value, false, true>;
    case SYS_lgetxattr: return xattr<get_value, false, false>;
    case SYS_fgetxattr: return xattr<get_value, true, true>;
    case SYS_setxattr: return xattr<set_value, false, true>;
    case SYS_lsetxattr: return xattr<set_value, false, false>;
    case SYS_fsetxattr: return xattr<set_value, true, true>;
    case SYS_listxattr: return xattr<list_values, false, true>;
    case SYS_llistxattr: return xattr<list_values, false, false>;
    case SYS_flistxattr: return xattr<list_values, true, true>;
    case SYS_removexattr: return xattr<remove_value, false, true>;
    case SYS_lremovexattr: return xattr<remove_value, false, false>;
    case SYS_fremovexattr: return xattr<remove_value, true, true>;
    default: return nullptr;
  }
}

}  // namespace

void fill_stat(struct stat* out, const Attributes& attributes, Mount& mount) {
  *out = posix::to_stat(attributes);
  out->st_dev = mount.device();
}

Reply stat_description(Description& description, struct stat* out) {
  auto attributes = description.run([](posix::OpenFile& file) { return file.stat(); });
  if (!attributes) return refuse(attributes.error());
  fill_stat(out, *attributes, description.mount());
  return 0;
}

Handler attribute_handler(long number) {
  switch (number) {
    case SYS_stat: return stat;
    case SYS_lstat: return lstat;
    case SYS_fstat: return fstat;
    case SYS_newfstatat: return newfstatat;
    case SYS_statx: return statx;
    case SYS_access: return access;
    case SYS_faccessat: return faccessat;
    case SYS_faccessat2: return faccessat2;
    case SYS_chmod: return chmod;
    case SYS_fchmod: return fchmod;
    case SYS_fchmodat: return fchmodat;
    case SYS_chown: return chown;
    case SYS_lchown: return lchown;
    case SYS_fchown: return fchown;
    case SYS_fchownat: return fchownat;
    case SYS_utimensat: return utimensat;
    case SYS_utimes: return utimes;
    case SYS_futimesat: return futimesat;
    case SYS_utime: return utime;
    case SYS_statfs: return statfs;
    case SYS_fstatfs: return fstatfs;
    default: return xattr_handler(number);
  }
}

}  // namespace spate::preload
