// SPDX-License-Identifier: Apache-2.0
// Frames of an open tcp connection: a header of 32 bytes, then for some types a payload. docs/wire-tcp.md, "Frames".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "bmi/network.h"
#include "bmi/protocol/frame.h"
#include "bmi/protocol/limits.h"

namespace spate::bmi::tcp {

using protocol::cost_of;
using protocol::kMaxLength;

using protocol::FrameType;
using protocol::kFlagTooBig;

// The module's own frames.
inline constexpr FrameType kCredit{13};    // nothing but the credit field
inline constexpr FrameType kOpenBulk{14};  // acceptor to connector: open the bulk connections

/// The type that has this number on the wire. Empty: there is none.
std::optional<FrameType> type_of_number(std::uint8_t number);

/// `length`: payload bytes that follow. In kAnnounce: bytes of the announced message.
struct FrameHeader : protocol::Header {
  std::uint32_t credit = 0;  // bytes of credit given back, for the connection's class; in kCredit for `message_class`

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
  /// Payload bytes that follow this header.
  std::uint64_t payload() const;
};

inline constexpr std::size_t kHeaderSize = 32;
using HeaderBytes = std::array<std::byte, kHeaderSize>;

HeaderBytes encode(const protocol::Header& header, std::uint32_t credit);
inline HeaderBytes encode(const FrameHeader& header) { return encode(header, header.credit); }
/// Empty when the bytes are no valid header: wrong magic, type, class or flags, or a length beyond 2^62.
std::optional<FrameHeader> decode_frame(const std::byte* bytes);

}  // namespace spate::bmi::tcp
