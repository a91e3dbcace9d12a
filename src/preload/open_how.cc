// SPDX-License-Identifier: Apache-2.0
#include "preload/open_how.h"

#include <fcntl.h>

#include <algorithm>
#include <vector>

#include "preload/paths.h"

namespace spate::preload {
namespace {

constexpr std::uint64_t kConfined = RESOLVE_BENEATH | RESOLVE_IN_ROOT;
constexpr std::uint64_t kKnownResolve = kWalkedHere | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED;
constexpr unsigned kMostLinks = 40;  // the kernel's limit

/// Walks a path name by name, with handles.
class Walk {
 public:
  /// `start`: a directory, which is the root of a confined walk.
  Walk(Mount& mount, Handle start, std::string path, std::uint64_t resolve, bool follow)
      : mount_(mount), rest_(std::move(path)), at_{start}, resolve_(resolve), follow_(follow) {}

  Result<posix::PathAt> run() {
    SPATE_TRY(std::ignore, begin_path());
    for (;;) {
      const std::string name = next_name();
      if (name.empty()) return posix::PathAt{at_.back(), ".", false, false};
      if (name == ".") continue;
      if (name == "..") {
        SPATE_TRY(std::ignore, go_up());
        continue;
      }
      const bool last = rest_.empty();
      const auto entry = posix::PathAt::entry(at_.back(), name);
      auto found = stat(entry);
      if (!found && last && found.code() == Errc::kNotFound) return entry;  // the open may create it
      if (!found) return std::move(found).error();
      if (found->type == FileType::kSymlink && (!last || follow_)) {
        SPATE_TRY(std::ignore, enter_link(found->handle));
      } else if (last) {
        return entry;
      } else if (found->type != FileType::kDirectory) {
        return Errc::kNotDirectory;
      } else {
        at_.push_back(found->handle);
      }
    }
  }

 private:
  bool wants(std::uint64_t flag) const { return (resolve_ & flag) != 0; }

  Result<Attributes> stat(const posix::PathAt& where) {
    return mount_.run([&](posix::FileSystem& files) { return files.stat(where); });
  }

  /// Begins with the given path, or puts the target of a link before the rest of the path.
  Result<void> begin_path() {
    if (rest_.size() > posix::kLongestPath) return Errc::kNameTooLong;
    if (!rest_.starts_with('/')) return {};
    if (wants(RESOLVE_BENEATH)) return Errc::kCrossDevice;
    at_.resize(1);
    return {};
  }

  /// Removes and returns the next name; empty at the end. Keeps the '/' after a name that must be a directory.
  std::string next_name() {
    const std::size_t begin = rest_.find_first_not_of('/');
    if (begin == std::string::npos) return {};
    const std::size_t end = std::min(rest_.find('/', begin), rest_.size());
    std::string name = rest_.substr(begin, end - begin);
    rest_.erase(0, end);
    return name;
  }

  Result<void> go_up() {
    if (at_.size() > 1) {
      at_.pop_back();
    } else if (wants(RESOLVE_BENEATH)) {
      return Errc::kCrossDevice;
    } else if (!wants(RESOLVE_IN_ROOT)) {
      SPATE_TRY(const Attributes parent, stat({at_.back(), "..", true, false}));
      at_.back() = parent.handle;
    }
    return {};
  }

  Result<void> enter_link(Handle link) {
    if (wants(RESOLVE_NO_SYMLINKS) || ++links_ > kMostLinks) return Errc::kSymlinkLoop;
    SPATE_TRY(const std::string target,
              mount_.run([&](posix::FileSystem& files) { return files.readlink(posix::PathAt::object(link)); }));
    rest_ = target + rest_;
    return begin_path();
  }

  Mount& mount_;
  std::string rest_;
  std::vector<Handle> at_;  // the directories from the start to the present one
  const std::uint64_t resolve_;
  const bool follow_;
  unsigned links_ = 0;
};

/// The directory at which a call's relative path begins. `mount` null: the directory is not in Spate.
Result<ResolvedPath> directory_of(const Frame& frame) {
  Frame itself = frame;
  itself.word[1] = reinterpret_cast<long>(".");
  return locate(itself, kAtPath, true);
}

/// Resolves a path that cannot leave the directory at which it starts.
Result<ResolvedPath> locate_confined(Frame& frame, const std::string& path, std::uint64_t resolve, bool follow) {
  SPATE_TRY(ResolvedPath place, directory_of(frame));
  if (place.mount == nullptr) {
    if (path.starts_with('/')) return place;
    Frame copy = frame;
    SPATE_TRY(const ResolvedPath inside, locate(copy, kAtPath, false));
    // The path starts in an ordinary directory above the mount: the kernel's links and ours would need a check.
    if (inside.mount != nullptr) return Errc::kCrossDevice;
    return ResolvedPath();
  }
  const Handle start = place.where.base;
  place.shown = straighten(place.shown + straighten("/" + path));
  SPATE_TRY(place.where, Walk(*place.mount, start, path, resolve, follow).run());
  return place;
}

/// Whether a path leaves a file system, or enters one, somewhere along its way.
Result<bool> crosses(const Frame& frame, const std::string& path, const Mount* to) {
  if (path.starts_with('/')) return to != nullptr;
  SPATE_TRY(const ResolvedPath from, directory_of(frame));
  return from.mount != to;
}

}  // namespace

int wrong_how(const open_how* how, std::size_t size) {
  constexpr std::size_t kLargest = 4096;  // a page, the kernel's limit
  if (size < sizeof(open_how)) return EINVAL;
  if (size > kLargest) return E2BIG;
  if (how == nullptr) return EFAULT;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(how);
  if (std::any_of(bytes + sizeof *how, bytes + size, [](unsigned char byte) { return byte != 0; })) return E2BIG;
  if (how->flags > UINT32_MAX || (how->resolve & ~kKnownResolve) != 0) return EINVAL;
  if ((how->resolve & kConfined) == kConfined) return EINVAL;
  const bool makes = (how->flags & O_CREAT) != 0 || (how->flags & O_TMPFILE) == O_TMPFILE;
  return how->mode > 07777U || (how->mode != 0 && !makes) ? EINVAL : 0;
}

Result<ResolvedPath> locate_how(Frame& frame, std::uint64_t resolve, bool follow) {
  const char* const given = memory<const char>(frame, 1);
  const std::string path = given == nullptr ? "" : given;
  if (path.empty()) return Errc::kNotFound;
  if (path.size() > posix::kLongestPath) return Errc::kNameTooLong;
  if ((resolve & RESOLVE_BENEATH) != 0 && path.starts_with('/')) return Errc::kCrossDevice;
  ResolvedPath place;
  if ((resolve & kConfined) != 0) {
    SPATE_TRY(place, locate_confined(frame, path, resolve, follow));
  } else {
    const bool links = (resolve & RESOLVE_NO_SYMLINKS) == 0;
    const Frame before = frame;
    SPATE_TRY(place, locate(frame, kAtPath, links && follow));
    if ((resolve & RESOLVE_NO_XDEV) != 0) {
      SPATE_TRY(const bool leaves, crosses(before, path, place.mount));
      if (leaves) return Errc::kCrossDevice;
    }
    const bool by_number = place.opened != nullptr && path.starts_with('/');  // /proc/self/fd/N
    if (by_number && (resolve & RESOLVE_NO_MAGICLINKS) != 0) return Errc::kSymlinkLoop;
    if (place.mount != nullptr && !links) {
      SPATE_TRY(place.where, Walk(*place.mount, place.where.base, place.where.path, resolve, follow).run());
    }
  }
  // The path cannot be resolved without asking the servers.
  if (place.mount != nullptr && (resolve & RESOLVE_CACHED) != 0) return Errc::kTryAgain;
  return place;
}

}  // namespace spate::preload
