// SPDX-License-Identifier: Apache-2.0
// Calls on names: stat, mkdir, rename, attributes.
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "capi/handles.h"
#include "posix/convert.h"

namespace spate::capi {
namespace {

using posix::FileSystem;
using posix::PathAt;

Work stat_into(FileSystem& fs, PathAt where, struct stat* out) {
  SPATE_CO_TRY(const Attributes attributes, co_await fs.stat(std::move(where)));
  *out = posix::to_stat(attributes);
  co_return 0;
}

/// Answers from the cache if there is a lease, without waiting for the executor.
template <typename MakeWhere>
int stat_now(spate_fs* fs, const MakeWhere& make_where, struct stat* out) noexcept {
  const CallOf call(fs);
  try {
    const PathAt where = make_where();
    const auto kept = fs->posix->kept_attributes(where);
    if (!kept) return static_cast<int>(now(fs, where.path, [&] { return stat_into(*fs->posix, where, out); }));
    if (!*kept) return refuse(kept->error());
    *out = posix::to_stat(**kept);
    return 0;
  } catch (const std::bad_alloc&) {
    return refuse(Errc::kNoMemory);
  }
}

Work access_of(FileSystem& fs, PathAt where, int wanted) {
  SPATE_CO_TRY(std::ignore, co_await fs.access(std::move(where), wanted));
  co_return 0;
}

Work make_directory(FileSystem& fs, PathAt where, mode_t mode) {
  SPATE_CO_TRY(std::ignore, co_await fs.mkdir(std::move(where), mode));
  co_return 0;
}

Work remove_directory(FileSystem& fs, PathAt where) {
  SPATE_CO_TRY(std::ignore, co_await fs.rmdir(std::move(where)));
  co_return 0;
}

Work remove_name(FileSystem& fs, PathAt where) {
  SPATE_CO_TRY(std::ignore, co_await fs.unlink(std::move(where)));
  co_return 0;
}

Work make_symlink(FileSystem& fs, std::string target, PathAt where) {
  SPATE_CO_TRY(std::ignore, co_await fs.symlink(std::move(target), std::move(where)));
  co_return 0;
}

Work read_symlink(FileSystem& fs, PathAt where, char* buffer, std::size_t size) {
  SPATE_CO_TRY(const std::string target, co_await fs.readlink(std::move(where)));
  std::memcpy(buffer, target.data(), std::min(size, target.size()));
  co_return static_cast<std::int64_t>(target.size());
}

Work make_link(FileSystem& fs, PathAt existing, PathAt where) {
  SPATE_CO_TRY(std::ignore, co_await fs.link(std::move(existing), std::move(where)));
  co_return 0;
}

Work rename_name(FileSystem& fs, PathAt from, PathAt to, unsigned flags) {
  SPATE_CO_TRY(std::ignore, co_await fs.rename(std::move(from), std::move(to), flags));
  co_return 0;
}

Work truncate_name(FileSystem& fs, PathAt where, off_t size) {
  SPATE_CO_TRY(std::ignore, co_await fs.truncate(std::move(where), size));
  co_return 0;
}

Work set_attributes(FileSystem& fs, PathAt where, wire::SetattrRequest request) {
  SPATE_CO_TRY(std::ignore, co_await fs.set_attributes(std::move(where), std::move(request)));
  co_return 0;
}

Work make_node(FileSystem& fs, PathAt where, mode_t mode, dev_t device) {
  SPATE_CO_TRY(std::ignore, co_await fs.mknod(std::move(where), mode, device));
  co_return 0;
}

/// Returns bytes as getxattr(2) and listxattr(2) do.
Outcome hand_over(ByteView bytes, void* memory, std::size_t size) {
  if (size != 0 && bytes.size() > size) return Errc::kOutOfRange;
  if (size != 0 && !bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  return static_cast<std::int64_t>(bytes.size());
}

Work get_attribute(FileSystem& fs, PathAt where, std::string name, void* value, std::size_t size) {
  SPATE_CO_TRY(const Bytes bytes, co_await fs.getxattr(std::move(where), std::move(name)));
  co_return hand_over(bytes, value, size);
}

Work set_attribute(FileSystem& fs, PathAt where, std::string name, Bytes value, int flags) {
  SPATE_CO_TRY(std::ignore, co_await fs.setxattr(std::move(where), std::move(name), std::move(value), flags));
  co_return 0;
}

Work list_attributes(FileSystem& fs, PathAt where, char* list, std::size_t size) {
  SPATE_CO_TRY(const auto names, co_await fs.listxattr(std::move(where)));
  std::string all;
  for (const std::string& name : names) all.append(name).push_back('\0');
  co_return hand_over(as_bytes(all), list, size);
}

Work remove_attribute(FileSystem& fs, PathAt where, std::string name) {
  SPATE_CO_TRY(std::ignore, co_await fs.removexattr(std::move(where), std::move(name)));
  co_return 0;
}

bool known_flags(int flags) { return (flags & ~AT_SYMLINK_NOFOLLOW) == 0; }
bool follows(int flags) { return (flags & AT_SYMLINK_NOFOLLOW) == 0; }
constexpr const char* kBadFlags = "flags may be AT_SYMLINK_NOFOLLOW only";

}  // namespace
}  // namespace spate::capi

using namespace spate::capi;

extern "C" {

int spate_stat(spate_fs* fs, const char* path, struct stat* st) {
  if (fs == nullptr || path == nullptr || st == nullptr) return refuse_null("fs, path or st");
  return stat_now(fs, [=] { return at(path); }, st);
}

int spate_stat_start(spate_fs* fs, const char* path, struct stat* st, spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (fs == nullptr || path == nullptr || st == nullptr || op == nullptr) return refuse_null("fs, path, st or op");
  return later(fs, path, nullptr, [fs, where = at(path), st] { return stat_into(*fs->posix, where, st); }, op);
}

int spate_lstat(spate_fs* fs, const char* path, struct stat* st) {
  if (fs == nullptr || path == nullptr || st == nullptr) return refuse_null("fs, path or st");
  return stat_now(fs, [=] { return at(path, false); }, st);
}

int spate_fstatat(spate_file* directory, const char* path, struct stat* st, int flags) {
  if (directory == nullptr || path == nullptr || st == nullptr) return refuse_null("directory, path or st");
  if (!known_flags(flags)) return refuse_argument(kBadFlags);
  return stat_now(directory->fs, [=] { return at(*directory, path, follows(flags)); }, st);
}

int spate_access(spate_fs* fs, const char* path, int mode) {
  if (fs == nullptr || path == nullptr) return refuse_null("fs or path");
  return static_cast<int>(now(fs, path, [=] { return access_of(*fs->posix, at(path), mode); }));
}

int spate_mkdir(spate_fs* fs, const char* path, mode_t mode) {
  if (fs == nullptr || path == nullptr) return refuse_null("fs or path");
  return static_cast<int>(now(fs, path, [=] { return make_directory(*fs->posix, at(path), mode); }));
}

int spate_mkdir_start(spate_fs* fs, const char* path, mode_t mode, spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (fs == nullptr || path == nullptr || op == nullptr) return refuse_null("fs, path or op");
  return later(fs, path, nullptr, [fs, where = at(path), mode] { return make_directory(*fs->posix, where, mode); }, op);
}

int spate_rmdir(spate_fs* fs, const char* path) {
  if (fs == nullptr || path == nullptr) return refuse_null("fs or path");
  return static_cast<int>(now(fs, path, [=] { return remove_directory(*fs->posix, at(path)); }));
}

int spate_rmdir_start(spate_fs* fs, const char* path, spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (fs == nullptr || path == nullptr || op == nullptr) return refuse_null("fs, path or op");
  return later(fs, path, nullptr, [fs, where = at(path)] { return remove_directory(*fs->posix, where); }, op);
}

int spate_unlink(spate_fs* fs, const char* path) {
  if (fs == nullptr || path == nullptr) return refuse_null("fs or path");
  return static_cast<int>(now(fs, path, [=] { return remove_name(*fs->posix, at(path)); }));
}

int spate_unlink_start(spate_fs* fs, const char* path, spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (fs == nullptr || path == nullptr || op == nullptr) return refuse_null("fs, path or op");
  return later(fs, path, nullptr, [fs, where = at(path)] { return remove_name(*fs->posix, where); }, op);
}

int spate_unlinkat(spate_file* directory, const char* path, int flags) {
  if (directory == nullptr || path == nullptr) return refuse_null("directory or path");
  if ((flags & ~AT_REMOVEDIR) != 0) return refuse_argument("flags may be AT_REMOVEDIR only");
  return static_cast<int>(now(directory->fs, path, [=] {
    spate::posix::FileSystem& fs = *directory->fs->posix;
    return flags == 0 ? remove_name(fs, at(*directory, path)) : remove_directory(fs, at(*directory, path));
  }));
}

int spate_symlink(spate_fs* fs, const char* target, const char* path) {
  if (fs == nullptr || target == nullptr || path == nullptr) return refuse_null("fs, target or path");
  return static_cast<int>(now(fs, path, [=] { return make_symlink(*fs->posix, target, at(path)); }));
}

ssize_t spate_readlink(spate_fs* fs, const char* path, char* buffer, size_t size) {
  if (fs == nullptr || path == nullptr || buffer == nullptr) return refuse_null("fs, path or buffer");
  return now(fs, path, [=] { return read_symlink(*fs->posix, at(path, false), buffer, size); });
}

int spate_link(spate_fs* fs, const char* existing, const char* path) {
  if (fs == nullptr || existing == nullptr || path == nullptr) return refuse_null("fs, existing or path");
  return static_cast<int>(now(fs, path, [=] { return make_link(*fs->posix, at(existing, false), at(path)); }));
}

int spate_rename(spate_fs* fs, const char* from, const char* to, unsigned flags) {
  if (fs == nullptr || from == nullptr || to == nullptr) return refuse_null("fs, from or to");
  return static_cast<int>(now(fs, from, [=] { return rename_name(*fs->posix, at(from), at(to), flags); }));
}

int spate_rename_start(spate_fs* fs, const char* from, const char* to, unsigned flags, spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (fs == nullptr || from == nullptr || to == nullptr || op == nullptr) return refuse_null("fs, from, to or op");
  return later(
      fs, from, nullptr,
      [fs, old = at(from), where = at(to), flags] { return rename_name(*fs->posix, old, where, flags); }, op);
}

int spate_truncate(spate_fs* fs, const char* path, off_t size) {
  if (fs == nullptr || path == nullptr) return refuse_null("fs or path");
  return static_cast<int>(now(fs, path, [=] { return truncate_name(*fs->posix, at(path), size); }));
}

int spate_chmod(spate_fs* fs, const char* path, mode_t mode) {
  if (fs == nullptr || path == nullptr) return refuse_null("fs or path");
  spate::wire::SetattrRequest request;
  request.mode = mode & 07777U;
  return static_cast<int>(now(fs, path, [&] { return set_attributes(*fs->posix, at(path), request); }));
}

int spate_chown(spate_fs* fs, const char* path, uid_t uid, gid_t gid, int flags) {
  if (fs == nullptr || path == nullptr) return refuse_null("fs or path");
  if (!known_flags(flags)) return refuse_argument(kBadFlags);
  spate::wire::SetattrRequest request;
  if (uid != static_cast<uid_t>(-1)) request.uid = uid;
  if (gid != static_cast<gid_t>(-1)) request.gid = gid;
  return static_cast<int>(now(fs, path, [&] { return set_attributes(*fs->posix, at(path, follows(flags)), request); }));
}

int spate_utimens(spate_fs* fs, const char* path, const struct timespec times[2], int flags) {
  if (fs == nullptr || path == nullptr) return refuse_null("fs or path");
  if (!known_flags(flags)) return refuse_argument(kBadFlags);
  spate::wire::SetattrRequest request;
  const auto set = spate::posix::set_times(times, request);
  if (!set) return refuse(set.error());
  return static_cast<int>(now(fs, path, [&] { return set_attributes(*fs->posix, at(path, follows(flags)), request); }));
}

int spate_mknod(spate_fs* fs, const char* path, mode_t mode, dev_t device) {
  if (fs == nullptr || path == nullptr) return refuse_null("fs or path");
  return static_cast<int>(now(fs, path, [=] { return make_node(*fs->posix, at(path), mode, device); }));
}

ssize_t spate_getxattr(spate_fs* fs, const char* path, const char* name, void* value, size_t size, int flags) {
  if (fs == nullptr || path == nullptr || name == nullptr || (value == nullptr && size > 0))
    return refuse_null("fs, path, name or value");
  if (!known_flags(flags)) return refuse_argument(kBadFlags);
  return now(fs, path, [=] { return get_attribute(*fs->posix, at(path, follows(flags)), name, value, size); });
}

int spate_setxattr(spate_fs* fs, const char* path, const char* name, const void* value, size_t size, int flags) {
  if (fs == nullptr || path == nullptr || name == nullptr || (value == nullptr && size > 0))
    return refuse_null("fs, path, name or value");
  if (size > spate::kMaxXattrValueBytes) return refuse(spate::Errc::kArgumentTooLong);
  const spate::ByteView bytes(static_cast<const std::byte*>(value), size);
  return static_cast<int>(
      now(fs, path, [=] { return set_attribute(*fs->posix, at(path), name, spate::to_bytes(bytes), flags); }));
}

ssize_t spate_listxattr(spate_fs* fs, const char* path, char* list, size_t size, int flags) {
  if (fs == nullptr || path == nullptr || (list == nullptr && size > 0)) return refuse_null("fs, path or list");
  if (!known_flags(flags)) return refuse_argument(kBadFlags);
  return now(fs, path, [=] { return list_attributes(*fs->posix, at(path, follows(flags)), list, size); });
}

int spate_removexattr(spate_fs* fs, const char* path, const char* name) {
  if (fs == nullptr || path == nullptr || name == nullptr) return refuse_null("fs, path or name");
  return static_cast<int>(now(fs, path, [=] { return remove_attribute(*fs->posix, at(path), name); }));
}

}  // extern "C"
