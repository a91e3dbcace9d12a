// SPDX-License-Identifier: Apache-2.0
// The layout of the segment that two processes share. docs/wire-shm.md, "Segment".
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "bmi/network.h"
#include "bmi/protocol/limits.h"

namespace spate::bmi::shm {

using protocol::index_of;
using protocol::kClasses;

/// Who connected, and who accepted: names the two sides of a link.
enum class Side : std::uint8_t { kAcceptor = 0, kConnector = 1 };
inline constexpr Side other(Side side) { return side == Side::kAcceptor ? Side::kConnector : Side::kAcceptor; }

/// A slot: word 0 says which frame it holds and is written last.
using Slot = std::array<std::atomic<std::uint64_t>, 8>;
inline constexpr std::size_t kSlotSize = 64;
static_assert(sizeof(Slot) == kSlotSize && std::atomic<std::uint64_t>::is_always_lock_free);

/// The words of one side outside of frames. Each line of 64 bytes has one writer, except `waits`.
struct SideBlock {
  /// The events for which this side wants to be woken (kWake...). This side sets bits; the side that wakes it clears
  /// them.
  alignas(64) std::atomic<std::uint32_t> waits;
  /// By class, since the link was made: slots and payload bytes that this side has taken out of the other's lanes, and
  /// credit that it has given back.
  alignas(64) std::array<std::atomic<std::uint64_t>, kClasses> slots_taken;
  std::array<std::atomic<std::uint64_t>, kClasses> bytes_taken;
  std::array<std::atomic<std::uint64_t>, kClasses> returned;
  /// Not 0: this side has closed the link; what it offered may change from now on.
  alignas(64) std::atomic<std::uint32_t> closed;
};
static_assert(sizeof(SideBlock) == 192);

inline constexpr std::uint32_t kWakeFrames = 1;  // for a frame in a lane
inline constexpr std::uint32_t kWakeRoom = 2;    // for room in a lane
inline constexpr std::uint32_t kWakeCredit = 4;

/// Slots and payload bytes of one lane; powers of two.
struct LaneSize {
  std::uint32_t slots = 256;         // 16 to 65,536
  std::uint64_t bytes = 128 * 1024;  // 4 KiB to 1 GiB
  friend bool operator==(const LaneSize&, const LaneSize&) = default;
};

/// A lane carries the frames of one class in one direction; both directions are alike.
struct Geometry {
  std::array<LaneSize, kClasses> lanes;
  friend bool operator==(const Geometry&, const Geometry&) = default;
};

bool is_valid(const Geometry& geometry);
/// Of a valid geometry; whole pages.
std::uint64_t segment_size(const Geometry& geometry);
std::uint64_t side_offset(Side side);

/// Where a lane lies, bytes from the beginning of the segment.
struct LanePlace {
  std::uint64_t slots = 0;
  std::uint64_t data = 0;
};
LanePlace lane_place(const Geometry& geometry, Side writer, MessageClass c);

}  // namespace spate::bmi::shm
