// SPDX-License-Identifier: Apache-2.0
// EventSet: an epoll set.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "base/unique_fd.h"

namespace spate::bmi::protocol {

/// Life cycle: construct -> open() -> other calls -> destroyed; the descriptors in it belong to others. Thread-safe
/// after open(), as epoll is.
class EventSet {
 public:
  /// Functions that return bool return false, with errno, when descriptors or memory have run out, or when the user has
  /// used up fs.epoll.max_user_watches.
  bool open();
  int descriptor() const { return epoll_.get(); }
  /// `target`: the pointer that look() reports for the descriptor.
  bool add(int fd, std::uint32_t events, void* target) const { return control(EPOLL_CTL_ADD, fd, events, target); }
  /// epoll looks at the descriptor again and reports its present state, also if the edge has been reported before.
  bool change(int fd, std::uint32_t events, void* target) const { return control(EPOLL_CTL_MOD, fd, events, target); }
  void remove(int fd) const { (void)control(EPOLL_CTL_DEL, fd, 0, nullptr); }
  /// Fills `room` with the events that are there and returns that part of it.
  std::span<const epoll_event> look(std::span<epoll_event> room) const;

 private:
  bool control(int what, int fd, std::uint32_t events, void* target) const;

  UniqueFd epoll_;
};

}  // namespace spate::bmi::protocol
