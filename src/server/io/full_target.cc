// SPDX-License-Identifier: Apache-2.0
#include "server/io/full_target.h"

#include <algorithm>

#include "log/log.h"

namespace spate::io {
namespace {

constexpr Duration kLook = std::chrono::seconds(1);
constexpr std::uint64_t kRoom = 1U << 20U;

std::uint64_t free_bytes(Target& target) {
  const auto space = target.description.storage.store().space();
  return space ? space->free_bytes : 0;
}

/// Reports room only when free space has grown by a hundredth of the device. Otherwise each removal and each write
/// after it would be logged.
job::Task<void> tell_room(Parts& parts, Target& target) {
  const auto space = target.description.storage.store().space();
  const std::uint64_t wanted = space ? space->free_bytes + std::max(kRoom, space->total_bytes / 100) : kRoom;
  while (free_bytes(target) < wanted) {
    const auto slept = co_await parts.executor.sleep(kLook, parts.stopping);
    if (!slept) co_return;
  }
  target.is_full = false;
  SPATE_LOG("server/io", info, "the device has room again target={} free_bytes={}", target.description.id,
            free_bytes(target));
}

}  // namespace

void note_if_full(Parts& parts, Target& target, Errc code) {
  if (code != Errc::kNoSpace || target.is_full) return;
  target.is_full = true;
  SPATE_LOG("server/io", error,
            "the device is full, writes to it fail: remove files, or give it more target={} free_bytes={}",
            target.description.id, free_bytes(target));
  job::spawn(parts.gate, tell_room(parts, target));
}

}  // namespace spate::io
