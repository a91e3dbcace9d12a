// SPDX-License-Identifier: Apache-2.0
// The flow control of one class in one direction: the sender's half and the receiver's half. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spate::bmi::protocol {

/// How many bytes of charged messages the sender may still send. More credit may come back than was charged, since the
/// window starts smaller while messages of an earlier session are not taken.
struct SendCredit {
  std::uint64_t available = 0;

  /// Takes `cost` unless less than `reserve` would be left.
  bool take(std::uint64_t cost, std::uint64_t reserve) {
    if (available < cost || available - cost < reserve) return false;
    available -= cost;
    return true;
  }
  /// False: the sum is more than this side can count.
  bool give(std::uint64_t bytes) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 48U;
    available += bytes;
    return available <= kMost;
  }
};

/// How many bytes of one peer's messages the receiver holds, and how much of it was consumed but not returned yet.
struct ReceiveCredit {
  std::uint64_t held = 0;  // charged and not given back, bytes
  std::uint64_t owed = 0;  // the part of `held` that was consumed

  /// False: the peer has exceeded its credit.
  bool charge(std::uint64_t cost, std::uint64_t window) {
    if (cost > window || held > window - cost) return false;
    held += cost;
    return true;
  }
  void consume(std::uint64_t cost) { owed += cost; }
  /// The credit that the next packet carries.
  std::uint32_t take_owed() {
    const std::uint64_t credit = std::min<std::uint64_t>(owed, UINT32_MAX);
    owed -= credit;
    held -= std::min(held, credit);
    return static_cast<std::uint32_t>(credit);
  }
};

}  // namespace spate::bmi::protocol
