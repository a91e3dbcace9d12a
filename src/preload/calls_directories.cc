// SPDX-License-Identifier: Apache-2.0
// Reading directories, and the working directory.
#include <dirent.h>
#include <fcntl.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "posix/convert.h"
#include "preload/calls.h"
#include "preload/paths.h"

namespace spate::preload {
namespace {

/// A buffer of entries in the form of getdents64.
struct EntryWriter {
  char* out;
  std::size_t room;
  std::size_t used = 0;

  /// False: there is no room for the entry.
  bool add(const posix::DirectoryItem& item) {
    constexpr std::size_t kName = offsetof(dirent64, d_name);
    const std::size_t size = (kName + item.name.size() + 1 + 7) / 8 * 8;
    if (used + size > room) return false;
    dirent64 head{};
    head.d_ino = item.handle.value == 0 ? 1 : item.handle.value;  // 0 would mean a deleted entry
    head.d_off = static_cast<off64_t>(item.next);
    head.d_reclen = static_cast<unsigned short>(size);
    head.d_type = posix::entry_type(item.type);
    std::memset(out + used, 0, size);
    std::memcpy(out + used, &head, kName);
    std::memcpy(out + used + kName, item.name.data(), item.name.size());
    used += size;
    return true;
  }
};

/// The next entry. If the last call had no room for an entry and the position is unchanged, it is that one.
Result<std::optional<posix::DirectoryItem>> next_item(Description& d) {
  const std::uint64_t position = d.state()->position.load();
  if (d.pending && d.pending->position == position) {
    std::optional<posix::DirectoryItem> item = std::move(d.pending->item);
    d.pending.reset();
    d.state()->position.store(item->next);
    return item;
  }
  return d.run([](posix::OpenFile& file) { return file.next_entry(); });
}

Reply getdents64(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 0));
  if (d == nullptr) return kToKernel;
  EntryWriter writer{memory<char>(f, 1), static_cast<std::size_t>(static_cast<unsigned>(f.word[2]))};
  const Turn turn(d->state()->turn);
  if (!turn.held()) return turn.interrupted();
  for (;;) {
    const std::uint64_t position = d->state()->position.load();
    auto item = next_item(*d);
    if (!item) return writer.used > 0 ? Reply(static_cast<long>(writer.used)) : refuse(item.error());
    if (!*item) return static_cast<long>(writer.used);
    if (writer.add(**item)) continue;
    // OpenFile continues after it without another request when the position comes back to that place.
    d->pending = Description::Pending{**std::move(item), position};
    d->state()->position.store(position);
    return writer.used > 0 ? Reply(static_cast<long>(writer.used)) : minus(EINVAL);
  }
}

/// Makes folders named like the path below a new folder, changes to the last one, and removes them all. So the kernel
/// knows the name of the working directory, but nothing can be found or created in it.
Result<void> enter_removed_directory(const std::string& shown, Handle handle) {
  // The name is random, so that nobody can create it first.
  std::uint64_t number = 0;
  if (failed(raw(SYS_getrandom, &number, sizeof number, 0))) return Errc::kIoError;
  for (const char* place : {"/dev/shm", "/tmp", "/var/tmp", "/run"}) {
    const std::string top = place + std::string(kCwdName) + std::to_string(number) + "-" + std::to_string(handle.value);
    if (failed(raw(SYS_mkdir, top.c_str(), 0700))) continue;
    std::vector<std::string> made{top};
    bool whole = true;
    for (std::size_t slash = 0; whole && slash != std::string::npos;) {
      slash = shown.find('/', slash + 1);
      made.push_back(top + shown.substr(0, slash));
      whole = !failed(raw(SYS_mkdir, made.back().c_str(), 0700));
    }
    const bool there = whole && !failed(raw(SYS_chdir, made.back().c_str()));
    while (!made.empty()) {
      raw(SYS_rmdir, made.back().c_str());
      made.pop_back();
    }
    if (there) return {};
  }
  return Error(Errc::kIoError, "no folder can be made in /dev/shm, /tmp, /var/tmp or /run");
}

/// The path without symbolic links, as getcwd() must return it. `shown` has no "." components. Walks at most 40 links.
Result<std::string> without_links(Mount& mount, const std::string& shown) {
  std::string done = mount.prefix();
  std::string rest = shown.substr(mount.prefix().size());
  for (unsigned links = 0; !rest.empty();) {
    const std::size_t end = rest.find('/', 1);
    const std::string next = done + rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end);
    posix::PathAt where;
    where.path = next.substr(mount.prefix().size());
    where.follow = false;
    auto target = mount.run([&](posix::FileSystem& files) { return files.readlink(where); });
    if (!target && target.code() != Errc::kInvalidArgument) return std::move(target).error();
    if (!target) {
      done = next;  // not a link
      continue;
    }
    if (++links > kMaxSymlinkDepth) return Errc::kSymlinkLoop;
    const std::string whole = straighten((target->starts_with('/') ? *target : done + "/" + *target) + rest);
    if (!is_below(whole, mount.prefix())) return Errc::kCrossDevice;
    done = mount.prefix();
    rest = whole.substr(done.size());
  }
  return done;
}

void leave() { front().state->cwd_inside = false; }

/// `shown`: the path that getcwd() will return, once its links are resolved. An open directory may have another name by
/// now; then `shown` is its name at the time of the open.
Result<void> enter(Mount& mount, const posix::PathAt& where, const std::string& shown, bool opened) {
  SPATE_TRY(const Attributes found, mount.run([&](posix::FileSystem& files) { return files.stat(where); }));
  if (found.type != FileType::kDirectory) return Errc::kNotDirectory;
  const posix::PathAt object = posix::PathAt::object(found.handle);
  SPATE_TRY(std::ignore, mount.run([&](posix::FileSystem& files) { return files.access(object, X_OK); }));
  auto direct = without_links(mount, shown);
  if (!direct && !opened) return std::move(direct).error();
  const std::string path = direct ? *std::move(direct) : shown;
  if (path.size() >= sizeof FrontState::cwd) return Errc::kNameTooLong;
  SPATE_TRY(std::ignore, enter_removed_directory(path, found.handle));
  if (front().in_vfork_child()) return {};  // the program that the child starts will find the directory itself
  FrontState& state = *front().state;
  std::memcpy(state.cwd, path.c_str(), path.size() + 1);
  __atomic_store_n(&state.cwd_handle, found.handle.value, __ATOMIC_RELAXED);
  state.cwd_inside = true;
  return {};
}

Reply chdir(Frame& f) {
  auto place = locate(f, kPlain, true);
  if (!place) return refuse(place.error());
  if (place->mount != nullptr) {
    const auto entered = enter(*place->mount, place->where, place->shown, false);
    if (entered || !leads_out(entered.error())) return done(entered);
    redirect(f, kPlain, entered.error().context());
  }
  const long left = ask_kernel(f);
  if (left == 0 && !front().in_vfork_child()) leave();
  return left;
}

Reply fchdir(Frame& f) {
  if (const DescriptionRef d = description_of(fd(f, 0)))
    return done(enter(d->mount(), posix::PathAt::object(d->handle()), d->path(), true));
  const long left = ask_kernel(f);
  if (left == 0 && !front().in_vfork_child()) leave();
  return left;
}

Reply getcwd(Frame& f) {
  const std::string_view path = front().state->cwd;
  if (path.size() + 1 > static_cast<std::size_t>(f.word[1])) return minus(ERANGE);
  std::memcpy(memory<char>(f, 0), path.data(), path.size() + 1);
  return static_cast<long>(path.size()) + 1;
}

}  // namespace

Handler directory_handler(long number) {
  switch (number) {
    case SYS_getdents64: return getdents64;
    case SYS_chdir: return chdir;
    case SYS_fchdir: return fchdir;
    case SYS_getcwd: return getcwd;
    default: return nullptr;
  }
}

}  // namespace spate::preload
