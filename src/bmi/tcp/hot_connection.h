// SPDX-License-Identifier: Apache-2.0
// HotConnection: the control connection that a module reads first.
#pragma once

#include <algorithm>

#include "bmi/tcp/connection.h"

namespace spate::bmi::tcp {

/// Woken, a process with few peers is woken by the one that it spoke with last: reading its socket at once spares an
/// epoll_wait. What else is ready stays so in the epoll set. Likewise a process that polls: three of four turns without
/// work look at that socket alone. The module's lock guards it.
class HotConnection {
 public:
  /// To be read at once instead of asking epoll; null: ask epoll. Not more than some times in a row.
  Connection* to_read_first() {
    constexpr int kTurns = 4;  // then the others are looked at
    const bool guess = connection_ != nullptr && hits_ > 0 && turns_ < kTurns;
    return guess && !connection_->closed ? connection_ : nullptr;
  }
  void was_read_alone() { ++turns_; }
  void all_are_read() { turns_ = 0; }
  /// Whether something was there for a reader who was woken.
  void guessed(bool right) { hits_ = std::min(kSure, right ? hits_ + 1 : hits_ - 2); }
  /// epoll has reported this control connection.
  void reported(Connection& connection) {
    hits_ += &connection == connection_ && hits_ <= 0 ? 1 : 0;
    connection_ = &connection;
  }
  /// Closed connections are about to be freed.
  void forget_closed() {
    if (connection_ != nullptr && connection_->closed) connection_ = nullptr;
  }

 private:
  static constexpr int kSure = 8;

  Connection* connection_ = nullptr;  // the one that was read last
  int hits_ = 0;                      // how often it was the right guess lately
  int turns_ = 0;                     // in a row that looked at nothing else
};

}  // namespace spate::bmi::tcp
