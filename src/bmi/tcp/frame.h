// SPDX-License-Identifier: Apache-2.0
// Frames of an open tcp connection: a header of 32 bytes, then for some types a payload. docs/wire-tcp.md, "Frames".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "bmi/network.h"
#include "bmi/protocol/limits.h"

namespace spate::bmi::tcp {

using protocol::cost_of;
using protocol::kMaxLength;

/// What a frame says. Values are part of the wire format.
enum class FrameType : std::uint8_t {
  kEager = 1,       // an expected message; charged to the credit of its class
  kUnexpected = 2,  // an unexpected message; charged likewise
  kReady = 3,       // an expected message whose receive is known to be posted; dropped when it is not
  kAnnounce = 4,    // an expected message of `length` bytes waits at the sender; `id`: the sender's operation
  kClear = 5,       // the receiver's `tag` operation takes the announced message `id`
  kData = 6,        // the payload of an announced message; `id`: the receiver's operation
  kWithdraw = 7,    // the announced message `id` will not come
  kNoData = 8,      // answer to kClear: the message had been withdrawn; `id`: the receiver's operation
  kCredit = 9,      // nothing but the credit field
  kOpenBulk = 10,   // acceptor to connector: open the bulk connections
};

/// On kClear: the message is longer than the receive; it is to be dropped by the sender.
inline constexpr std::uint8_t kFlagTooBig = 1;

struct FrameHeader {
  FrameType type = FrameType::kEager;
  MessageClass message_class = MessageClass::kControl;
  std::uint8_t flags = 0;
  std::uint32_t credit = 0;  // bytes given back to the class (of the connection; of kCredit: `message_class`)
  std::uint64_t tag = 0;
  std::uint64_t length = 0;  // payload bytes that follow; of kAnnounce: that are announced
  std::uint64_t id = 0;

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
  /// Payload bytes that follow this header.
  std::uint64_t payload() const;
};

inline constexpr std::size_t kHeaderSize = 32;
using HeaderBytes = std::array<std::byte, kHeaderSize>;

HeaderBytes encode(const FrameHeader& header);
/// Empty when the bytes are no valid header: wrong magic, type, class or flags, or a length beyond 2^62.
std::optional<FrameHeader> decode_frame(const std::byte* bytes);

}  // namespace spate::bmi::tcp
