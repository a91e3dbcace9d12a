// SPDX-License-Identifier: Apache-2.0
// The module's protocol between two simulated processes. It never goes over a real network, so it has no byte format.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "base/bytes.h"
#include "bmi/network.h"
#include "bmi/sim/network_interface.h"

namespace spate::bmi::sim {

/// One side of one connection. With `connection` 0 it means none.
struct ConnectionEnd {
  std::uint64_t connection = 0;
  std::uint32_t side = 0;  // 0: the connector, 1: the listener
  ConnectionEnd other() const { return {connection, 1 - side}; }
  friend constexpr auto operator<=>(const ConnectionEnd&, const ConnectionEnd&) = default;
};

/// The pools of memory that one peer may make a receiver hold. The sender obeys the limit, and the receiver checks it.
enum Pool : std::size_t {
  kUnexpectedPool,
  kEagerControlPool,
  kEagerBulkPool,
  kAnnounceControlPool,
  kAnnounceBulkPool,
  kPools
};
using Credits = std::array<std::uint64_t, kPools>;

/// The first message of both sides when a connection is made.
struct Hello {
  std::uint64_t instance = 0;  // identifies the process; another number after each restart
  std::uint64_t peer = 0;      // the number under which the connector knows the other side
  NetworkInterface interface;
  Credits limits{};                   // how much the sender of this may be made to hold, by pool
  std::uint64_t max_unexpected = 0;   // the largest unexpected message that it takes, bytes
  std::uint64_t unexpected_held = 0;  // how much it holds already, from an earlier connection
};

struct Packet {
  enum class Kind : std::uint8_t {
    kUnexpected,  // tag, payload
    kEager,       // a whole expected message; `ready`: drop it when no receive is posted
    kAnnounce,    // an expected message of `size` waits at the sender as `transfer`
    kReady,       // the data of a message of `size` follow; the sender does not wait for kClear
    kClear,       // to the sender: send `transfer`
    kRefuse,      // to the sender: `transfer` is longer than its receive
    kData,        // payload of `transfer` at `offset`
    kWithdraw,    // `transfer` was cancelled before it was cleared
    kCredit,      // only carries `credits`, as every packet may
  };
  Kind kind = Kind::kCredit;
  MessageClass message_class = MessageClass::kControl;
  Tag tag;
  bool ready = false;
  std::uint64_t transfer = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  Bytes payload;
  Credits credits{};        // room given back to the packet's receiver
  std::uint64_t token = 0;  // not sent: the sender gets it back when the last byte has left
};

/// Packets with the same key arrive in the order of sending; others may overtake each other.
struct StreamKey {
  std::uint8_t lane = 0;  // 0 unexpected, 1 control, 2 bulk, 3 credit
  std::uint64_t tag = 0;
  friend constexpr auto operator<=>(const StreamKey&, const StreamKey&) = default;
};
StreamKey stream_of(const Packet& packet);

/// The cost of a message that the receiver holds, in addition to its payload. Both sides count it.
constexpr std::uint64_t kMessageCharge = 64;

}  // namespace spate::bmi::sim
