// SPDX-License-Identifier: Apache-2.0
// Resolves the paths of calls to objects in file systems.
#include <fcntl.h>

#include <array>
#include <cstring>

#include "preload/calls.h"
#include "preload/helper.h"
#include "preload/paths.h"

namespace spate::preload {
namespace {

/// The most that one call may need: four texts for a script, five times, because the interpreter may be a script, too.
constexpr std::size_t kKeptTexts = 32;

/// The directory at which a relative path begins.
struct Base {
  Mount* mount = nullptr;
  Handle handle;
  std::string shown;
};

Result<Base> working_base() {
  Base base;
  base.shown = front().state->cwd;
  base.mount = mount_of(base.shown);
  if (base.mount == nullptr) return Errc::kNotFound;
  base.handle = Handle(__atomic_load_n(&front().state->cwd_handle, __ATOMIC_RELAXED));
  return base;
}

Result<Base> base_of(const Frame& frame, PathArguments arguments, DescriptionRef& opened) {
  const int directory = arguments.directory < 0 ? AT_FDCWD : fd(frame, arguments.directory);
  if (directory == AT_FDCWD) {
    if (!front().state->cwd_inside) return Base();
    return working_base();
  }
  opened = description_of(directory);
  if (opened == nullptr) return Base();
  Base base;
  base.mount = &opened->mount();
  base.handle = opened->handle();
  base.shown = opened->path();
  return base;
}

/// Resolves an absolute path.
ResolvedPath absolute(const std::string& path) {
  ResolvedPath place;
  Mount* mount = mount_of(path);
  if (mount != nullptr && is_straight(path)) {  // the case of most paths
    place.mount = mount;
    place.where.path = path.size() == mount->prefix().size() ? "/" : path.substr(mount->prefix().size());
    place.shown = path;
    return place;
  }
  std::string rest;
  if (mount != nullptr) rest = path.substr(mount->prefix().size());
  place.shown = straighten(path);
  if (mount == nullptr || climbs_out(rest, 0)) {
    mount = mount_of(place.shown);
    if (mount == nullptr) return place;
    rest = place.shown.substr(mount->prefix().size());
  }
  place.mount = mount;
  place.where.path = rest.empty() ? "/" : rest;
  return place;
}

ResolvedPath relative(const Base& base, const std::string& path) {
  const std::size_t depth = depth_of(base.shown) - depth_of(base.mount->prefix());
  if (climbs_out(path, depth)) return absolute(straighten(base.shown + "/" + path));
  ResolvedPath place;
  place.mount = base.mount;
  place.where.base = base.handle;
  place.where.path = path;
  place.shown = straighten(base.shown + "/" + path);
  return place;
}

/// Descriptors of Spate also have names below /proc and /dev.
Result<bool> locate_descriptor(const std::string& path, ResolvedPath& place) {
  const int number = named_descriptor(path, raw(SYS_getpid));
  DescriptionRef opened = number < 0 ? description_behind(path) : description_of(number);
  if (opened == nullptr) return false;
  place.mount = &opened->mount();
  place.where = posix::PathAt::object(opened->handle());
  place.shown = opened->path();
  place.opened = std::move(opened);
  return true;
}

/// Resolves a relative path from an ordinary directory. The path lies outside of Spate, or below a mount prefix that is
/// below the directory.
ResolvedPath from_outside(const Frame& frame, PathArguments arguments, std::string_view path) {
  const int directory = arguments.directory < 0 ? AT_FDCWD : fd(frame, arguments.directory);
  const std::string link = directory == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(directory);
  std::array<char, 4096> text{};
  const long size = raw(SYS_readlink, link.c_str(), text.data(), text.size());
  if (failed(size) || path.empty()) return {};
  while (path.starts_with("./")) path.remove_prefix(2);
  std::string whole(text.data(), static_cast<std::size_t>(size));
  if (!whole.ends_with('/')) whole += '/';
  whole += path;
  return mount_of(whole) == nullptr ? ResolvedPath() : absolute(whole);
}

}  // namespace

bool leads_out(const Error& error) { return error.code() == Errc::kCrossDevice && error.context().starts_with('/'); }

const char* keep_text(std::string text) {
  if (char* const shared = helper_memory(text.size() + 1)) {
    std::memcpy(shared, text.c_str(), text.size() + 1);
    return shared;
  }
  thread_local std::array<std::string, kKeptTexts> kept;
  thread_local std::size_t next = 0;
  std::string& place = kept[next++ % kept.size()];
  place = std::move(text);
  return place.c_str();
}

void redirect(Frame& frame, PathArguments arguments, std::string path) {
  frame.word[arguments.path] = reinterpret_cast<long>(keep_text(std::move(path)));
  if (arguments.directory >= 0) frame.word[arguments.directory] = AT_FDCWD;
}

Result<ResolvedPath> locate(Frame& frame, PathArguments arguments, bool follow, bool empty) {
  const char* const given = memory<const char>(frame, arguments.path);
  const std::string path = given == nullptr ? "" : given;
  if (path.size() > posix::kLongestPath) return Errc::kNameTooLong;
  ResolvedPath place;
  if (path.starts_with('/')) {
    if (follow) {
      SPATE_TRY(const bool found, locate_descriptor(path, place));
      if (found) return place;
    }
    place = absolute(path);
    if (place.mount == nullptr && mount_of(path) != nullptr) redirect(frame, arguments, place.shown);
  } else {
    DescriptionRef opened;
    SPATE_TRY(const Base base, base_of(frame, arguments, opened));
    if (base.mount == nullptr) {
      place = from_outside(frame, arguments, path);
      place.where.follow = follow;
      return place;
    }
    if (path.empty()) {
      if (!empty) return Errc::kNotFound;
      place.mount = base.mount;
      place.where = posix::PathAt::object(base.handle);
      place.shown = base.shown;
      place.opened = std::move(opened);
      return place;
    }
    if (opened != nullptr && opened->type() != FileType::kDirectory) return Errc::kNotDirectory;
    place = relative(base, path);
    if (place.mount == nullptr) redirect(frame, arguments, place.shown);
  }
  place.where.follow = follow;
  return place;
}

}  // namespace spate::preload
