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

/// The two sides of a link: the one that accepted, and the one that connected.
enum class Side : std::uint8_t { kAcceptor = 0, kConnector = 1 };
inline constexpr Side other(Side side) { return side == Side::kAcceptor ? Side::kConnector : Side::kAcceptor; }

/// A slot of a lane. Word 0 says which frame it holds, and is written last.
using FrameSlot = std::array<std::atomic<std::uint64_t>, 8>;
inline constexpr std::size_t kSlotSize = 64;
static_assert(sizeof(FrameSlot) == kSlotSize && std::atomic<std::uint64_t>::is_always_lock_free);

/// How much one side has taken out of the other side's lane of one class since the lane was made.
struct Taken {
  std::atomic<std::uint64_t>& slots;
  std::atomic<std::uint64_t>& bytes;
};

/// The words of one side that belong to no frame. Each line of 64 bytes has one writer, except that of `waits`.
struct SideBlock {
  /// The events for which this side wants to be woken (kWake...). This side sets bits; the side that wakes it clears
  /// them.
  alignas(64) std::atomic<std::uint32_t> waits;
  /// By class, since the link was made: slots and payload bytes that this side has taken out of the other side's lanes,
  /// and credit that it has given back.
  alignas(64) std::array<std::atomic<std::uint64_t>, kClasses> slots_taken;
  std::array<std::atomic<std::uint64_t>, kClasses> bytes_taken;
  std::array<std::atomic<std::uint64_t>, kClasses> returned;
  /// Not 0: this side has closed the link, and the memory that it offered may change from now on.
  alignas(64) std::atomic<std::uint32_t> closed;
  /// The same counts as slots_taken and bytes_taken, for the narrow lanes.
  alignas(64) std::array<std::atomic<std::uint64_t>, kClasses> narrow_slots_taken;
  std::array<std::atomic<std::uint64_t>, kClasses> narrow_bytes_taken;

  Taken taken(MessageClass c) { return {slots_taken[index_of(c)], bytes_taken[index_of(c)]}; }
  Taken narrow_taken(MessageClass c) { return {narrow_slots_taken[index_of(c)], narrow_bytes_taken[index_of(c)]}; }
};
static_assert(sizeof(SideBlock) == 256);

inline constexpr std::uint32_t kWakeFrames = 1;  // for a frame in a lane
inline constexpr std::uint32_t kWakeRoom = 2;    // for room in a lane
inline constexpr std::uint32_t kWakeCredit = 4;

/// Slots and payload bytes of one lane; powers of two.
struct LaneSize {
  std::uint32_t slots = 256;         // 16 to 65,536
  std::uint64_t bytes = 128 * 1024;  // 4 KiB to 1 GiB
  friend bool operator==(const LaneSize&, const LaneSize&) = default;
};

/// The sizes of the lanes by class. A lane carries the frames of one class in one direction; both directions have the
/// same sizes.
struct Geometry {
  std::array<LaneSize, kClasses> lanes;
  friend bool operator==(const Geometry&, const Geometry&) = default;
};

/// Sizes of the lanes in the segment. They carry the frames until the acceptor has admitted its peer. So a server
/// shares little memory with a process that it does not know yet. Part of the format.
inline constexpr Geometry kNarrow{{LaneSize{32, 16 * 1024}, LaneSize{16, 4 * 1024}}};

bool is_valid(const Geometry& geometry);
/// Size in whole pages of a segment with these lanes. `geometry` is valid; from version 2 on it is that of the narrow
/// lanes.
std::uint64_t segment_size(const Geometry& geometry);
/// Size of the memory for the full lanes, which is passed later.
std::uint64_t full_lanes_size(const Geometry& geometry);
std::uint64_t side_offset(Side side);

/// The place of a lane, in bytes from the beginning of its memory.
struct LanePlace {
  std::uint64_t slots = 0;
  std::uint64_t data = 0;
};
LanePlace lane_place(const Geometry& geometry, Side writer, MessageClass c);
LanePlace full_lane_place(const Geometry& geometry, Side writer, MessageClass c);

}  // namespace spate::bmi::shm
