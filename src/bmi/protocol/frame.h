// SPDX-License-Identifier: Apache-2.0
// Frames: what the two sides of a connection send each other. Each module writes them in its own bytes
// (docs/wire-*.md).
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "bmi/network.h"

namespace spate::bmi::protocol {

/// A message begins with one of the first four types and continues with kMore. Numbers from 13 on belong to the module.
/// shm and ofi write these numbers, which are part of their formats.
enum class FrameType : std::uint8_t {
  kEager = 1,       // an expected message; charged to the credit of its class
  kUnexpected = 2,  // an unexpected message; charged likewise
  kReady = 3,       // an expected message whose receive is known to be posted; dropped if there is none
  kData = 4,        // an announced message; `id`: the receiver's operation
  kMore = 5,        // the next part of the message that was begun
  kAbort = 6,       // the message that was begun is withdrawn, and its parts are dropped
  kAnnounce = 7,    // an expected message of `length` bytes waits at the sender; `id`: the sender's operation
  kClear = 8,       // the receiver's `tag` operation takes the announced message `id`
  kWithdraw = 9,    // the announced message `id` will not come
  kNoData = 10,     // answer to kClear: the message had been withdrawn; `id`: the receiver's operation
  kTaken = 11,      // the located message `id` was read or dropped: the sender may use its memory again
  kWithdrawn = 12,  // answer to kWithdraw of a located message: nobody will read it
};

/// On kClear: the message is longer than the receive, so the sender drops it.
inline constexpr std::uint8_t kFlagTooBig = 1;
/// On kAnnounce, kReady, kWithdraw: the message lies in memory that the receiver may read by itself. The frame's
/// payload says where.
inline constexpr std::uint8_t kFlagLocated = 2;

struct Header {
  FrameType type = FrameType::kEager;
  MessageClass message_class = MessageClass::kControl;
  std::uint8_t flags = 0;
  std::uint64_t tag = 0;
  std::uint64_t length = 0;  // of the whole message, bytes
  std::uint64_t id = 0;
  friend bool operator==(const Header&, const Header&) = default;
};

/// Room for the payload of one frame; in two pieces where it wraps around.
struct Room {
  MutableByteView first;
  MutableByteView second;  // empty as a rule
  std::size_t size() const { return first.size() + second.size(); }
};

}  // namespace spate::bmi::protocol
