// SPDX-License-Identifier: Apache-2.0
#include "preload/broker/held.h"

#include <fcntl.h>
#include <sys/inotify.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace spate::preload {

Result<std::unique_ptr<HeldFiles>> HeldFiles::make() {
  UniqueFd inotify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify) return errno_error(errno, "watch open files (fs.inotify.max_user_instances)");
  return std::unique_ptr<HeldFiles>(new HeldFiles(std::move(inotify)));
}

HeldFile* HeldFiles::find(const MemoryIdentity& identity) {
  const auto found = files_.find(identity);
  return found == files_.end() || found->second.gone ? nullptr : &found->second;
}

Result<HeldFile*> HeldFiles::watch(int descriptor, Handle handle) {
  // Opening it is a check: the broker accepts the memory of a user only if this user may open it.
  SPATE_TRY(const UniqueFd memory, open_memory(descriptor, O_RDONLY));
  const MemoryIdentity identity = identity_of(memory.get());
  if (!identity) return Errc::kInvalidArgument;
  if (HeldFile* const known = find(identity))
    return known->handle == handle ? Result<HeldFile*>(known) : Errc::kInvalidArgument;
  if (files_.contains(identity)) return Errc::kInvalidArgument;
  const std::string link = "/proc/self/fd/" + std::to_string(memory.get());
  const int watch = ::inotify_add_watch(inotify_.get(), link.c_str(), IN_DELETE_SELF);
  if (watch < 0) return Error(Errc::kNoLocks, "fs.inotify.max_user_watches");
  HeldFile& made = files_[identity];
  made.identity = identity;
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
