// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/event_set.h"

#include <algorithm>

namespace spate::bmi::protocol {

bool EventSet::open() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  return static_cast<bool>(epoll_);
}

bool EventSet::control(int what, int fd, std::uint32_t events, void* target) const {
  epoll_event event{};
  event.events = events;
  event.data.ptr = target;
  return ::epoll_ctl(epoll_.get(), what, fd, &event) == 0;
}

std::span<const epoll_event> EventSet::look(std::span<epoll_event> room) const {
  const int n = ::epoll_wait(epoll_.get(), room.data(), static_cast<int>(room.size()), 0);
  return room.first(static_cast<std::size_t>(std::max(n, 0)));
}

}  // namespace spate::bmi::protocol
