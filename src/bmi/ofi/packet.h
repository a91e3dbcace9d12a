// SPDX-License-Identifier: Apache-2.0
// Packets: the contents of the fabric's messages. docs/wire-ofi.md.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "bmi/network.h"
#include "bmi/protocol/handshake.h"
#include "bmi/protocol/limits.h"
#include "bmi/protocol/op.h"

namespace spate::bmi::ofi {

using protocol::cost_of;
using protocol::index_of;
using protocol::kClasses;
using protocol::kept_back;
using protocol::kMaxLength;
using protocol::Limits;
using protocol::LinkId;
using protocol::reserve_of;

inline constexpr std::uint16_t kVersionMin = 1;
inline constexpr std::uint16_t kVersionMax = 1;
inline constexpr protocol::Versions kVersions{kVersionMin, kVersionMax};

using protocol::Extent;
using protocol::FrameType;
using protocol::kFlagLocated;
using protocol::kFlagTooBig;

// The module's own packets. Values are part of the format.
inline constexpr FrameType kCredit{13};  // nothing but what every packet carries
inline constexpr FrameType kPing{14};    // asks for a kPong
inline constexpr FrameType kPong{15};
inline constexpr FrameType kBye{16};      // the sender has left this session
inline constexpr FrameType kHello{17};    // the connector's first packet
inline constexpr FrameType kWelcome{18};  // the answer to it
inline constexpr FrameType kLastFrameType = kWelcome;

struct PacketHeader : protocol::Header {
  std::uint64_t session = 0;                     // the receiver's name for the pair; 0 in kHello
  std::array<std::uint32_t, kClasses> credit{};  // bytes given back, by class
  friend bool operator==(const PacketHeader&, const PacketHeader&) = default;
};

inline constexpr std::size_t kHeaderSize = 48;

/// A header and the payload behind it, borrowed from the packet.
struct Packet {
  PacketHeader header;
  ByteView payload;
};

/// Writes the header of a packet with `payload` bytes behind it; `out` has room for kHeaderSize.
void encode(const PacketHeader& header, std::size_t payload, std::byte* out);
/// Empty when the bytes are no packet: they are too short, the magic, type, class or flags are wrong, the length
/// exceeds kMaxLength, or the payload has another size than the header says.
std::optional<Packet> decode_packet(ByteView bytes);

/// Extents name parts of a located message in the sender's memory. The provider decides how addresses count: virtual
/// addresses, or offsets from the region's begin.
inline constexpr std::size_t kExtentSize = 24;
inline constexpr std::size_t kMaxExtents = 64;

void encode(std::span<const Extent> extents, Bytes& out);
/// Empty unless the extents are 1 to kMaxExtents, none is empty or wraps around, and they add up to `length`.
std::optional<std::vector<Extent>> decode_extents(ByteView bytes, std::uint64_t length);

/// The longest address of a provider, bytes.
inline constexpr std::size_t kMaxAddress = 256;

struct Hello {
  protocol::Versions versions = kVersions;
  std::uint32_t pid = 0;  // the connector's process; with shm the acceptor watches it, to notice its end
  LinkId link{};
  std::uint64_t session = 0;  // the number that the answer and all later packets to the connector carry
  Limits limits;
  Bytes address;  // of the connector, as its provider gives it
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct Welcome {
  Errc status = Errc::kOk;  // anything else: refused
  std::uint16_t version = kVersionMax;
  std::uint32_t pid = 0;
  std::uint64_t session = 0;
  Limits limits;
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

Bytes encode(const Hello& hello);
Bytes encode(const Welcome& welcome);
/// Empty if the bytes are no such message, or a field is out of range. Both messages keep this form in every version;
/// later versions append fields.
std::optional<Hello> decode_hello(ByteView bytes);
std::optional<Welcome> decode_welcome(ByteView bytes);

}  // namespace spate::bmi::ofi
