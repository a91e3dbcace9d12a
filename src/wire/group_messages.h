// SPDX-License-Identifier: Apache-2.0
// What the members of a group tell each other (docs/wire.md, "Groups").
#pragma once

#include <string_view>

#include "base/bytes.h"
#include "wire/op.h"

namespace spate::wire {

/// The most parts of one message.
inline constexpr std::uint32_t kMostGroupParts = 256;
/// The most bytes of one part. A request holds one part.
inline constexpr std::size_t kGroupPartBytes = std::size_t{96} << 10U;

/// One part of a message from one member to another. Parts arrive in order. After the last, the message is carried out.
struct GroupMessageRequest {
  static constexpr Op kOp = Op::kGroupMessage;
  static constexpr std::string_view kName = "group message request";
  std::uint64_t message = 0;  // the same in all parts of a message, and in no other message
  std::uint32_t part = 0;     // from 0 on
  std::uint32_t parts = 1;
  Bytes bytes;
  template <typename A>
  void fields(A& a) {
    a(message, part, parts, bytes);
  }
};
struct GroupMessageReply {
  static constexpr std::string_view kName = "group message reply";
  Bytes bytes;  // the member's answer to the last part, else nothing
  template <typename A>
  void fields(A& a) {
    a(bytes);
  }
};

}  // namespace spate::wire
