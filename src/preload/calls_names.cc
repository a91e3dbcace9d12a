// SPDX-License-Identifier: Apache-2.0
// Calls that change the name space or walk it: mkdir, unlink, rename, link, symlink, readlink, mknod, truncate.
#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>

#include "preload/calls.h"
#include "preload/paths.h"

namespace spate::preload {
namespace {

using posix::FileSystem;
using posix::PathAt;

Reply make_directory(Frame& f, PathArguments path, unsigned mode) {
  return on_path(
      f, path, false,
      [&](FileSystem& files, PathAt where) { return files.mkdir(std::move(where), with_umask(mode & 07777U)); }, kDone);
}

Reply remove(Frame& f, PathArguments path, bool directory) {
  const auto act = [&](FileSystem& files, PathAt where) {
    return directory ? files.rmdir(std::move(where)) : files.unlink(std::move(where));
  };
  return on_path(f, path, false, act, kDone);
}

Reply make_node(Frame& f, PathArguments path, unsigned mode, std::uint64_t device) {
  const unsigned all = (mode & S_IFMT) | with_umask(mode & 07777U);
  return on_path(
      f, path, false, [&](FileSystem& files, PathAt where) { return files.mknod(std::move(where), all, device); },
      kDone);
}

Reply make_link(Frame& f, const char* target, PathArguments path) {
  const std::string text = target == nullptr ? "" : target;
  if (text.empty()) return minus(ENOENT);
  return on_path(
      f, path, false, [&](FileSystem& files, PathAt where) { return files.symlink(text, std::move(where)); }, kDone);
}

Reply copy_out(const std::string& text, char* out, std::size_t room) {
  if (static_cast<long>(room) <= 0) return minus(EINVAL);
  const std::size_t size = std::min(room, text.size());
  std::memcpy(out, text.data(), size);
  return static_cast<long>(size);
}

Reply read_link(Frame& f, PathArguments path, char* out, std::size_t room) {
  if (const char* const text = memory<const char>(f, path.path)) {  // the link below /proc that stands for a descriptor
    const int number = named_descriptor(text, raw(SYS_getpid));
    const DescriptionRef d = number < 0 ? description_behind(text) : description_of(number);
    if (d != nullptr) return copy_out(d->path(), out, room);
  }
  auto place = locate(f, path, false, true);
  if (!place) return refuse(place.error());
  if (place->mount == nullptr) return kToKernel;
  auto target = place->mount->run([&](FileSystem& files) { return files.readlink(place->where); });
  if (!target && leads_out(target.error())) {
    redirect(f, path, target.error().context());
    return kToKernel;
  }
  return target ? copy_out(*target, out, room) : refuse(target.error());
}

/// For calls with two paths. Both must lie in one file system of Spate, or both outside.
template <typename Act>
Reply on_two(Frame& f, PathArguments from, PathArguments to, bool follow, const Act& act) {
  auto first = locate(f, from, follow, true);
  if (!first) return refuse(first.error());
  auto second = locate(f, to, false);
  if (!second) return refuse(second.error());
  if (first->mount == nullptr && second->mount == nullptr) return kToKernel;
  if (first->mount != second->mount) return minus(EXDEV);
  return done(first->mount->run([&](FileSystem& files) { return act(files, first->where, second->where); }));
}

Reply rename_paths(Frame& f, PathArguments from, PathArguments to, unsigned flags) {
  return on_two(f, from, to, false,
                [&](FileSystem& files, PathAt a, PathAt b) { return files.rename(std::move(a), std::move(b), flags); });
}

Reply link_paths(Frame& f, PathArguments from, PathArguments to, bool follow) {
  return on_two(f, from, to, follow,
                [](FileSystem& files, PathAt a, PathAt b) { return files.link(std::move(a), std::move(b)); });
}

constexpr PathArguments kSecondPlain{-1, 1};
constexpr PathArguments kSecondAt{2, 3};

Reply mkdir(Frame& f) { return make_directory(f, kPlain, static_cast<unsigned>(f.word[1])); }
Reply mkdirat(Frame& f) { return make_directory(f, kAtPath, static_cast<unsigned>(f.word[2])); }
Reply rmdir(Frame& f) { return remove(f, kPlain, true); }
Reply unlink(Frame& f) { return remove(f, kPlain, false); }
Reply unlinkat(Frame& f) {
  if ((fd(f, 2) & ~AT_REMOVEDIR) != 0) return minus(EINVAL);
  return remove(f, kAtPath, (fd(f, 2) & AT_REMOVEDIR) != 0);
}
Reply mknod(Frame& f) {
  return make_node(f, kPlain, static_cast<unsigned>(f.word[1]), static_cast<std::uint64_t>(f.word[2]));
}
Reply mknodat(Frame& f) {
  return make_node(f, kAtPath, static_cast<unsigned>(f.word[2]), static_cast<std::uint64_t>(f.word[3]));
}
Reply symlink(Frame& f) { return make_link(f, memory<const char>(f, 0), kSecondPlain); }
Reply symlinkat(Frame& f) { return make_link(f, memory<const char>(f, 0), {1, 2}); }
Reply readlink(Frame& f) { return read_link(f, kPlain, memory<char>(f, 1), static_cast<std::size_t>(f.word[2])); }
Reply readlinkat(Frame& f) { return read_link(f, kAtPath, memory<char>(f, 2), static_cast<std::size_t>(f.word[3])); }
Reply rename(Frame& f) { return rename_paths(f, kPlain, kSecondPlain, 0); }
Reply renameat(Frame& f) { return rename_paths(f, kAtPath, kSecondAt, 0); }
Reply renameat2(Frame& f) { return rename_paths(f, kAtPath, kSecondAt, static_cast<unsigned>(f.word[4])); }
Reply link(Frame& f) { return link_paths(f, kPlain, kSecondPlain, false); }
Reply linkat(Frame& f) { return link_paths(f, kAtPath, kSecondAt, (fd(f, 4) & AT_SYMLINK_FOLLOW) != 0); }
Reply truncate(Frame& f) {
  const std::int64_t size = f.word[1];
  return on_path(
      f, kPlain, true, [&](FileSystem& files, PathAt where) { return files.truncate(std::move(where), size); }, kDone);
}

}  // namespace

Handler name_handler(long number) {
  switch (number) {
    case SYS_mkdir: return mkdir;
    case SYS_mkdirat: return mkdirat;
    case SYS_rmdir: return rmdir;
    case SYS_unlink: return unlink;
    case SYS_unlinkat: return unlinkat;
    case SYS_mknod: return mknod;
    case SYS_mknodat: return mknodat;
    case SYS_symlink: return symlink;
    case SYS_symlinkat: return symlinkat;
    case SYS_readlink: return readlink;
    case SYS_readlinkat: return readlinkat;
    case SYS_rename: return rename;
    case SYS_renameat: return renameat;
    case SYS_renameat2: return renameat2;
    case SYS_link: return link;
    case SYS_linkat: return linkat;
    case SYS_truncate: return truncate;
    default: return nullptr;
  }
}

}  // namespace spate::preload
