// SPDX-License-Identifier: Apache-2.0
#include "fuse/async_releases.h"

#include <thread>

namespace spate::fuse {
namespace {

constexpr auto kPause = std::chrono::milliseconds(1);

}  // namespace

/// With the lock held.
void AsyncReleases::forget_done() {
  under_way_.remove_if([this](const auto& started) { return driver_.is_done(*started); });
}

std::size_t AsyncReleases::under_way() {
  const std::lock_guard lock(mutex_);
  forget_done();
  return under_way_.size();
}

bool AsyncReleases::drain(std::chrono::steady_clock::time_point limit) {
  while (under_way() > 0) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace spate::fuse
