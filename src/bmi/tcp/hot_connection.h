// SPDX-License-Identifier: Apache-2.0
// HotConnection: the control connection that a module reads first.
#pragma once

#include <algorithm>

#include "bmi/tcp/connection.h"

namespace spate::bmi::tcp {

/// The module's lock guards it. A process with few peers is usually woken by the one that it exchanged messages with
/// last. To read its socket at once saves an epoll_wait. Other sockets stay ready in the epoll set. Likewise, a process
/// that polls looks only at that socket in four of five turns without work.
class HotConnection {
 public:
  /// The connection to read at once instead of asking epoll. Null: ask epoll. It is not null more than a few times in a
  /// row.
  Connection* to_read_first() {
    constexpr int kTurns = 4;  // after this many turns it looks at the other connections
    const bool guess = connection_ != nullptr && hits_ > 0 && turns_ < kTurns;
    return guess && !connection_->closed ? connection_ : nullptr;
  }
  void was_read_alone() { ++turns_; }
  void all_are_read() { turns_ = 0; }
  /// Whether the connection had data when a woken thread read it.
  void guessed(bool right) { hits_ = std::min(kSure, right ? hits_ + 1 : hits_ - 2); }
  /// epoll has reported this control connection.
  void reported(Connection& connection) {
    hits_ += &connection == connection_ && hits_ <= 0 ? 1 : 0;
    connection_ = &connection;
  }
  /// Forgets the connection if it is closed, because closed connections are about to be freed.
  void forget_closed() {
    if (connection_ != nullptr && connection_->closed) connection_ = nullptr;
  }

 private:
  static constexpr int kSure = 8;

  Connection* connection_ = nullptr;  // the connection that was read last
  int hits_ = 0;                      // how often the guess was right lately
  int turns_ = 0;                     // turns in a row that looked at nothing else
};

}  // namespace spate::bmi::tcp
