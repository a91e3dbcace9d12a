// SPDX-License-Identifier: Apache-2.0
#include "fuse/unmount_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace spate::fuse {

UnmountWatch::UnmountWatch(int device, Duration grace, std::function<void()> on_end)
    : device_(device), grace_(grace), on_end_(std::move(on_end)), stopped_(::eventfd(0, EFD_CLOEXEC)), thread_([this] {
        watch();
      }) {}

UnmountWatch::~UnmountWatch() {
  const std::uint64_t one = 1;
  SPATE_CHECK(::write(stopped_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
}

/// The kernel reports POLLERR on the device of a mount that has ended.
void UnmountWatch::watch() {
  std::array<pollfd, 2> waits{pollfd{stopped_.get(), POLLIN, 0}, pollfd{device_, 0, 0}};
  while (::poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) {
  }
  if (waits[0].revents != 0) return;
  const auto grace = std::chrono::duration_cast<std::chrono::milliseconds>(grace_);
  const int stopped = ::poll(waits.data(), 1, static_cast<int>(grace.count()));
  if (stopped == 0) on_end_();
}

}  // namespace spate::fuse
