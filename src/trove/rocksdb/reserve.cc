// SPDX-License-Identifier: Apache-2.0
#include "trove/rocksdb/reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/unique_fd.h"
#include "log/log.h"

namespace spate::trove {
namespace {

struct Room {
  std::uint64_t free = 0;
  std::uint64_t reserve = 0;  // bytes to keep free on such a device for a start
  std::uint64_t working = 0;  // bytes that a running store may need
};

std::optional<Room> room_of(const std::string& folder) {
  struct statvfs fs{};
  if (::statvfs(folder.c_str(), &fs) != 0) return std::nullopt;
  const std::uint64_t total = static_cast<std::uint64_t>(fs.f_blocks) * fs.f_frsize;
  constexpr std::uint64_t kMostWorking = 64U << 20U;
  Room room;
  room.free = static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize;
  room.reserve = std::min(SpaceReserve::kMostBytes, total / 16);
  room.working = std::min(kMostWorking, total / 4);
  return room;
}

}  // namespace

void SpaceReserve::release_if_needed() {
  struct stat st{};
  kept_ = ::lstat(path().c_str(), &st) == 0 && S_ISREG(st.st_mode);
  const std::optional<Room> room = room_of(folder_);
  if (!kept_ || !room || room->free >= room->reserve) return;
  kept_ = ::unlink(path().c_str()) != 0;
  SPATE_LOG("trove/rocksdb", warn,
            "the device is full: the store starts in the room that was kept for this folder={} bytes={}", folder_,
            st.st_size);
}

bool SpaceReserve::short_of_space(const std::string& folder) {
  const std::optional<Room> room = room_of(folder);
  return room && room->free < room->working;
}

void SpaceReserve::keep() {
  if (kept_) return;
  const std::optional<Room> room = room_of(folder_);
  if (!room || room->free < 4 * room->reserve) return;
  const UniqueFd fd(::open(path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  kept_ = fd && ::posix_fallocate(fd.get(), 0, static_cast<off_t>(room->reserve)) == 0;
  if (fd && !kept_) ::unlink(path().c_str());
}

}  // namespace spate::trove
