// SPDX-License-Identifier: Apache-2.0
// The packets of a link: Hello, and frames afterwards. docs/wire-pipe.md shows their bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "bmi/protocol/frame.h"
#include "bmi/protocol/limits.h"

namespace spate::bmi::pipe {

using protocol::kClasses;

/// The first packet of each side. The acceptor repeats the connector's link id.
struct Hello {
  protocol::LinkId link{};
  protocol::Limits limits;
};

/// A frame that only carries credit.
inline constexpr protocol::FrameType kCredit{13};

/// Each frame gives back credit of both classes. The payload follows the header in the same packet.
struct Frame {
  protocol::Header header;
  std::array<std::uint32_t, kClasses> credit{};  // bytes
};

inline constexpr std::size_t kHelloSize = 48;
inline constexpr std::size_t kHeaderSize = 36;
inline constexpr std::size_t kMaxPayload = 64 * 1024;

Bytes encode(const Hello& hello);
Bytes encode(const Frame& frame);
/// Empty when the bytes are no such packet, or a field is out of range.
std::optional<Hello> decode_hello(ByteView packet);
std::optional<Frame> decode_frame(ByteView packet);

}  // namespace spate::bmi::pipe
