// SPDX-License-Identifier: Apache-2.0
// Events: the epoll set of the tcp module.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "bmi/protocol/event_set.h"
#include "bmi/tcp/connection.h"

namespace spate::bmi::tcp {

/// Thread-safe after open(). Functions that return bool fail as those of protocol::EventSet do.
class Events {
 public:
  bool open() { return set_.open(); }
  int descriptor() const { return set_.descriptor(); }
  /// Watches a listener, a connection or the resolver.
  bool watch(int fd, std::uint32_t events, Pollable& pollable) {
    used_.store(true, std::memory_order_relaxed);
    return set_.add(fd, events, &pollable);
  }
  /// Whether anything was watched. Until then no event can come.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  /// Makes descriptor() readable whenever `fd` is. Somebody else handles that event.
  bool wake_for(int fd) { return set_.add(fd, EPOLLIN, &foreign_); }
  bool wake_for_timer(int fd) { return set_.add(fd, EPOLLIN, &timer_); }
  void wake_no_more_for(int fd) { set_.remove(fd); }
  // Does not ask for EPOLLOUT; watch_again() does while a socket is full. Otherwise a socket that was read without an
  // event would still count as ready.
  bool watch(Connection& connection) { return watch(connection.socket(), kRead, connection); }
  /// Makes epoll report the connection's present state, and its room while it waits for room or for the end of
  /// connect(2).
  bool watch_again(Connection& connection) {
    const std::uint32_t room = connection.write_blocked || connection.connecting ? EPOLLOUT : 0U;
    return set_.change(connection.socket(), kRead | room, static_cast<Pollable*>(&connection));
  }
  /// Fills `room` with the events that are there and returns that part of it. Each event points at a Pollable.
  std::span<const epoll_event> look(std::span<epoll_event> room) const { return set_.look(room); }

 private:
  static constexpr std::uint32_t kRead = EPOLLIN | EPOLLRDHUP | EPOLLET;

  protocol::EventSet set_;
  Pollable timer_{Pollable::Kind::kTimer};
  Pollable foreign_{Pollable::Kind::kForeign};
  std::atomic<bool> used_{false};
};

}  // namespace spate::bmi::tcp
