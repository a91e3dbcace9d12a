// SPDX-License-Identifier: Apache-2.0
// UnmountWatch: notices the end of a mount while nobody reads the kernel's requests.
#pragma once

#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace spate::fuse {

/// A new server process first sends what the earlier one has left, and may wait for servers that never come back.
///
/// Life cycle: construct -> destroyed, which ends its thread.
class UnmountWatch {
 public:
  /// `device`: /dev/fuse, which outlives this object. If the mount has ended and this object is still there after
  /// `grace`, its thread calls `on_end` once.
  UnmountWatch(int device, Duration grace, std::function<void()> on_end);
  ~UnmountWatch();
  UnmountWatch(const UnmountWatch&) = delete;
  UnmountWatch& operator=(const UnmountWatch&) = delete;

 private:
  void watch();

  const int device_;
  const Duration grace_;
  const std::function<void()> on_end_;
  UniqueFd stopped_;
  std::thread thread_;
};

}  // namespace spate::fuse
