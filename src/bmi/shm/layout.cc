// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/layout.h"

#include <bit>

namespace spate::bmi::shm {
namespace {

constexpr std::uint64_t kSideBlocks = 256;  // the acceptor's 256 bytes, then the connector's
constexpr std::uint64_t kLanesOffset = 4096;

std::uint64_t lane_size(const LaneSize& lane) { return lane.slots * kSlotSize + lane.bytes; }

/// Size of all lanes of both directions.
std::uint64_t size_of(const Geometry& geometry) {
  std::uint64_t size = 0;
  for (const LaneSize& lane : geometry.lanes) size += 2 * lane_size(lane);
  return size;
}

std::uint64_t in_pages(std::uint64_t size) {
  constexpr std::uint64_t kPageBytes = 4096;
  return (size + kPageBytes - 1) / kPageBytes * kPageBytes;
}

/// The place of a lane, if the lanes begin at `at`.
LanePlace place_from(std::uint64_t at, const Geometry& geometry, Side writer, MessageClass c) {
  for (std::size_t i = 0; i < index_of(c); ++i) at += 2 * lane_size(geometry.lanes[i]);
  const LaneSize& lane = geometry.lanes[index_of(c)];
  at += static_cast<std::uint64_t>(writer) * lane_size(lane);
  return LanePlace{at, at + lane.slots * kSlotSize};
}

}  // namespace

bool is_valid(const Geometry& geometry) {
  for (const LaneSize& lane : geometry.lanes) {
    if (!std::has_single_bit(lane.slots) || lane.slots < 16 || lane.slots > 65536) return false;
    if (!std::has_single_bit(lane.bytes) || lane.bytes < 4096 || lane.bytes > (std::uint64_t{1} << 30U)) return false;
  }
  return true;
}

std::uint64_t segment_size(const Geometry& geometry) { return in_pages(kLanesOffset + size_of(geometry)); }

std::uint64_t full_lanes_size(const Geometry& geometry) { return in_pages(size_of(geometry)); }

std::uint64_t side_offset(Side side) { return kSideBlocks + 256 * static_cast<std::uint64_t>(side); }

LanePlace lane_place(const Geometry& geometry, Side writer, MessageClass c) {
  return place_from(kLanesOffset, geometry, writer, c);
}

LanePlace full_lane_place(const Geometry& geometry, Side writer, MessageClass c) {
  return place_from(0, geometry, writer, c);
}

}  // namespace spate::bmi::shm
