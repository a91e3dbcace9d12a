// SPDX-License-Identifier: Apache-2.0
// Acceptor: accepts connections on listening sockets, and copes with a process that has run out of descriptors.
#pragma once

#include <cerrno>
#include <utility>

#include "base/unique_fd.h"

namespace spate::bmi::protocol {

/// Life cycle: construct -> open() -> accept() any number of times -> destroyed. Not thread-safe: the module's lock
/// guards it.
class Acceptor {
 public:
  /// Takes the reserved descriptor. False, with errno: out of descriptors.
  bool open();

  /// Calls `accepted(UniqueFd)` for a few of the connections that wait at `listener`. Connected peers are served
  /// between two calls, so that they can be admitted before newer unauthenticated peers push them out. False: the
  /// process is out of descriptors, and a connection was refused.
  template <typename Accepted>
  bool accept(int listener, Accepted accepted) {
    constexpr int kPerTurn = 8;
    for (int i = 0; i < kPerTurn; ++i) {
      UniqueFd socket = take(listener);
      if (socket) {
        accepted(std::move(socket));
        continue;
      }
      if (errno == EMFILE || errno == ENFILE) {
        refuse(listener);
        return false;
      }
      if (errno != ECONNABORTED && errno != EINTR) return true;
    }
    return true;
  }

 private:
  static UniqueFd take(int listener);
  void refuse(int listener);

  UniqueFd reserve_;
};

}  // namespace spate::bmi::protocol
