// SPDX-License-Identifier: Apache-2.0
#include "preload/holder/held.h"

#include <sys/inotify.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "preload/front.h"

namespace spate::preload {
namespace {

/// Whoever asks shows a memfd of the library's: of a file that has a name nobody would tell of the last descriptor.
bool is_memfd(const std::string& link) {
  std::array<char, 64> target{};
  const ssize_t size = ::readlink(link.c_str(), target.data(), target.size() - 1);
  return size > 0 && std::string(target.data()).starts_with(std::string("/memfd:") + kDescriptorName);
}

}  // namespace

Result<std::unique_ptr<HeldFiles>> HeldFiles::make() {
  UniqueFd inotify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify) return errno_error(errno, "watch open files (fs.inotify.max_user_instances)");
  return std::unique_ptr<HeldFiles>(new HeldFiles(std::move(inotify)));
}

std::uint64_t HeldFiles::identity_of(int memfd) {
  struct stat st{};
  return memfd < 0 || ::fstat(memfd, &st) != 0 ? 0 : st.st_ino;
}

HeldFile* HeldFiles::find(std::uint64_t identity) {
  const auto found = files_.find(identity);
  return found == files_.end() || found->second.gone ? nullptr : &found->second;
}

Result<HeldFile*> HeldFiles::watch(int memfd, Handle handle) {
  const std::uint64_t identity = identity_of(memfd);
  if (HeldFile* const known = find(identity))
    return known->handle == handle ? Result<HeldFile*>(known) : Errc::kInvalidArgument;
  const std::string link = "/proc/self/fd/" + std::to_string(memfd);
  if (identity == 0 || files_.contains(identity) || !is_memfd(link)) return Errc::kInvalidArgument;
  const int watch = ::inotify_add_watch(inotify_.get(), link.c_str(), IN_DELETE_SELF);
  if (watch < 0) return Error(Errc::kNoLocks, "fs.inotify.max_user_watches");
  HeldFile& made = files_[identity];
  made.handle = handle;
  made.owner = ++last_owner_;
  made.watch = watch;
  by_watch_[watch] = identity;
  return &made;
}

void HeldFiles::look_for_gone() {
  alignas(inotify_event) std::array<char, 4096> room{};
  for (;;) {
    const ssize_t size = ::read(inotify_.get(), room.data(), room.size());
    if (size <= 0) return;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      inotify_event event{};
      std::memcpy(&event, room.data() + at, sizeof event);
      at += sizeof event + event.len;
      const auto watched = by_watch_.find(event.wd);
      if (watched == by_watch_.end()) continue;
      files_.at(watched->second).gone = true;
      by_watch_.erase(watched);
    }
  }
}

}  // namespace spate::preload
