// SPDX-License-Identifier: Apache-2.0
// The flow control of one direction between two processes: the sender's half and the receiver's half.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spate::bmi::sim {

/// The sender's view of the room at the receiver. A message of up to `largest` may travel alone even if it exceeds the
/// limit.
struct SendCredit {
  std::uint64_t limit = 0;
  std::uint64_t largest = 0;
  std::uint64_t outstanding = 0;

  bool take(std::uint64_t amount) {
    const std::uint64_t room = outstanding == 0 ? std::max(limit, largest) : limit;
    if (outstanding > room || amount > room - outstanding) return false;
    outstanding += amount;
    return true;
  }
  void give(std::uint64_t amount) { outstanding -= std::min(outstanding, amount); }
};

/// How much the receiver holds for one peer, and how much credit it has not returned yet.
struct ReceiveCredit {
  std::uint64_t limit = 0;
  std::uint64_t largest = 0;
  std::uint64_t held = 0;
  std::uint64_t owed = 0;

  /// False: the peer has exceeded its credit.
  bool hold(std::uint64_t amount) {
    const std::uint64_t room = held == 0 ? std::max(limit, largest) : limit;
    if (held > room || amount > room - held) return false;
    held += amount;
    return true;
  }
  void release(std::uint64_t amount) {
    held -= std::min(held, amount);
    owed += amount;
  }
  /// Whether so much credit is owed that the sender might wait for it. Then it is sent at once, without waiting for a
  /// packet to carry it.
  bool pressing() const {
    const std::uint64_t spare = limit > largest ? limit - largest : 0;
    return owed > std::min(limit / 4, spare);
  }
};

}  // namespace spate::bmi::sim
