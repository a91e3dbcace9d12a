// SPDX-License-Identifier: Apache-2.0
// Events: the epoll set of the shm module.
#pragma once

#include <cstdint>
#include <span>

#include "bmi/protocol/event_set.h"
#include "bmi/shm/link.h"

namespace spate::bmi::shm {

/// The module's lock guards it; wake_for() and remove() need no lock. Functions that return bool fail as those of
/// protocol::EventSet do.
class Events {
 public:
  bool open() { return set_.open(); }
  int descriptor() const { return set_.descriptor(); }
  /// Watches a listener, or a link's socket or bell.
  bool watch(int fd, std::uint32_t events, Pollable& pollable) {
    used_ = true;
    return set_.add(fd, events, &pollable);
  }
  bool watch_socket(Link& link) { return watch(link.socket(), EPOLLIN | EPOLLRDHUP, link.socket_event); }
  /// The bell is never read, because the peer may have changed its flags (docs/wire-shm.md). So each ring is an edge.
  bool watch_bell(Link& link) {
    return link.own_bell() >= 0 && watch(link.own_bell(), EPOLLIN | EPOLLET, link.bell_event);
  }
  /// Takes back watch() or wake_for().
  void remove(int fd) { set_.remove(fd); }
  /// Whether anything was watched. Until then no event can come.
  bool used() const { return used_; }
  /// Makes descriptor() readable whenever `fd` is. Somebody else handles that event.
  bool wake_for(int fd, std::uint32_t events = EPOLLIN) { return set_.add(fd, events, &foreign_); }
  bool wake_for_timer(int fd) { return set_.add(fd, EPOLLIN, &timer_); }
  /// Fills `room` with the events that are there and returns that part of it. Each event points at a Pollable.
  std::span<const epoll_event> look(std::span<epoll_event> room) const { return set_.look(room); }

 private:
  protocol::EventSet set_;
  Pollable timer_{Pollable::Kind::kTimer};
  Pollable foreign_{Pollable::Kind::kForeign};
  bool used_ = false;
};

}  // namespace spate::bmi::shm
