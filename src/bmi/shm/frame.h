// SPDX-License-Identifier: Apache-2.0
// Frames: the contents of slots. docs/wire-shm.md, "Frames".
#pragma once

#include <array>
#include <cstdint>

#include "bmi/protocol/limits.h"
#include "bmi/shm/layout.h"

namespace spate::bmi::shm {

using protocol::cost_of;
using protocol::kMaxLength;

/// Values are part of the format. Messages begin with one of the first four and go on with kMore.
enum class FrameType : std::uint8_t {
  kEager = 1,       // an expected message; charged to the credit of its class
  kUnexpected = 2,  // an unexpected message; charged likewise
  kReady = 3,       // an expected message whose receive is known to be posted; dropped when it is not
  kData = 4,        // an announced message; `id`: the receiver's operation
  kMore = 5,        // the message that was begun goes on
  kAbort = 6,       // the message that was begun ends here and never was
  kAnnounce = 7,    // an expected message of `length` bytes waits at the sender; `id`: the sender's operation
  kClear = 8,       // the receiver's `tag` operation takes the announced message `id`
  kWithdraw = 9,    // the announced message `id` will not come
  kNoData = 10,     // answer to kClear: the message had been withdrawn; `id`: the receiver's operation
  kTaken = 11,      // the located message `id` was read (or dropped): its memory is the sender's again
  kWithdrawn = 12,  // answer to kWithdraw of a located message: nobody will read it
  kWiden = 13,      // the last one of a narrow lane: what follows is in the full lane of its class
};
inline constexpr auto kLastFrameType = FrameType::kWiden;

/// On kClear: the message is longer than the receive; it is to be dropped by the sender.
inline constexpr std::uint8_t kFlagTooBig = 1;
/// On kAnnounce, kReady, kWithdraw: the message lies in memory that the receiver has mapped; the payload of the frame
/// says where (Extent).
inline constexpr std::uint8_t kFlagLocated = 2;

struct FrameHeader {
  FrameType type = FrameType::kEager;
  MessageClass message_class = MessageClass::kControl;
  std::uint8_t flags = 0;
  std::uint64_t tag = 0;
  std::uint64_t length = 0;  // of the whole message, bytes
  std::uint64_t id = 0;
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

/// Payload of up to this size travels in the slot itself.
inline constexpr std::uint64_t kInlineBytes = 24;
using InlineWords = std::array<std::uint64_t, kInlineBytes / 8>;

/// A part of a located message.
struct Extent {
  std::uint32_t arena = 0;  // the sender's, numbered from 0
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};
inline constexpr std::size_t kExtentSize = 24;
inline constexpr std::size_t kMaxExtents = 16;

}  // namespace spate::bmi::shm
