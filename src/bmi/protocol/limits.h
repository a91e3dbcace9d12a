// SPDX-License-Identifier: Apache-2.0
// Limits: what one side of a connection allows the other, and the rules of credit that follow from it. Every module
// sends them in its handshake in the same 24 bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/codec.h"
#include "bmi/network.h"

namespace spate::bmi::protocol {

inline constexpr std::size_t kClasses = 2;
inline constexpr std::size_t index_of(MessageClass c) { return static_cast<std::size_t>(c); }

/// The longest message, in bytes. Sums of two such lengths do not overflow.
inline constexpr std::uint64_t kMaxLength = std::uint64_t{1} << 62U;

/// A random number for each peer that is looked up. Only the two ends of the pair know it. It identifies the pair's
/// connections, and it tells the acceptor that a peer has come back.
using LinkId = std::array<std::byte, 16>;

/// A charged message takes its payload and this overhead from the credit of its class. The overhead stands for the
/// receiver's bookkeeping.
inline constexpr std::uint64_t kMessageOverhead = 256;
inline constexpr std::uint64_t cost_of(std::uint64_t payload) { return payload + kMessageOverhead; }

/// The limits that the sender of a handshake sets for the other side.
struct Limits {
  std::uint64_t window = 0;          // charged bytes per class that this side buffers
  std::uint64_t max_unexpected = 0;  // payload bytes of an unexpected message
  std::uint32_t max_announced = 0;   // announced messages per class without a receive
  std::uint32_t max_packet = 0;      // bytes of a packet, header included; 0 where the module has no packets
  friend bool operator==(const Limits&, const Limits&) = default;
};

/// The limits of a module. The window always holds one message of the largest size, or such a message could never be
/// sent.
inline Limits limits_of(const NetworkOptions& options, std::uint32_t max_announced) {
  return {std::max(options.buffered_per_peer_bytes, cost_of(options.max_unexpected_bytes)),
          options.max_unexpected_bytes, max_announced, 0};
}

/// Credit that expected messages do not touch: half the window, at least the cost of the largest unexpected message.
inline std::uint64_t reserve_of(const Limits& limits, MessageClass c) {
  if (c == MessageClass::kBulk) return 0;  // the bulk class has no unexpected messages
  return std::max(limits.window / 2, cost_of(limits.max_unexpected));
}

/// How much consumed credit the receiver may hold back until a frame carries it. The rest of the reserve always fits
/// the largest unexpected message.
inline std::uint64_t kept_back(const Limits& limits, MessageClass c) {
  if (c == MessageClass::kBulk) return limits.window / 2;
  return reserve_of(limits, c) - cost_of(limits.max_unexpected);
}

void put_limits(Encoder& out, const Limits& limits);
/// Fails `in` if a size exceeds 2^40 bytes.
Limits get_limits(Decoder& in);

}  // namespace spate::bmi::protocol
