// SPDX-License-Identifier: Apache-2.0
// Frames: the contents of a lane's slots. docs/wire-shm.md, "Frames".
#pragma once

#include <array>
#include <cstdint>

#include "bmi/protocol/frame.h"
#include "bmi/protocol/limits.h"
#include "bmi/shm/layout.h"

namespace spate::bmi::shm {

using protocol::cost_of;
using protocol::FrameType;
using protocol::kFlagLocated;
using protocol::kFlagTooBig;
using protocol::kMaxLength;
using FrameHeader = protocol::Header;

/// The last frame of a narrow lane. The following frames are in the full lane of its class.
inline constexpr FrameType kWiden{13};
inline constexpr FrameType kLastFrameType = kWiden;

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
