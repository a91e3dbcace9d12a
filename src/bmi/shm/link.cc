// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/link.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "base/check.h"

namespace spate::bmi::shm {
namespace {

const Geometry& lanes_of_segment(const Geometry& geometry, std::uint16_t version) {
  return version >= kVersionOfNarrowLanes ? kNarrow : geometry;
}

template <typename Lane>
Lane make_lane(MutableByteView memory, const LanePlace& place, const LaneSize& size, const Taken& taken) {
  FrameSlot* const slots = std::launder(reinterpret_cast<FrameSlot*>(&memory[place.slots]));
  return Lane(std::span(slots, size.slots), memory.subspan(place.data, size.bytes), taken.slots, taken.bytes);
}

}  // namespace

int Link::own_bell() {
  if (!bell_) bell_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return bell_.get();
}

Result<UniqueFd> Link::make_segment(const Geometry& geometry, std::uint16_t version) {
  geometry_ = geometry;
  const std::uint64_t size = segment_size(lanes_of_segment(geometry, version));
  SPATE_TRY(UniqueFd memory, make_memory("spate-link", size));
  SPATE_TRY(segment_, Mapping::of(memory.get(), size, true));
  lay_out_segment(version);
  return memory;
}

Result<void> Link::map_segment(const Geometry& geometry, int memory, std::uint16_t version) {
  geometry_ = geometry;
  const std::uint64_t size = segment_size(lanes_of_segment(geometry, version));
  SPATE_TRY(std::ignore, check_foreign_memory(memory, size));
  SPATE_TRY(segment_, Mapping::of(memory, size, true));
  lay_out_segment(version);
  return {};
}

Result<UniqueFd> Link::make_full_lanes() {
  const std::uint64_t size = full_lanes_size(geometry_);
  SPATE_TRY(UniqueFd memory, make_memory("spate-lanes", size));
  SPATE_TRY(full_lanes_, Mapping::of(memory.get(), size, true));
  lay_out_full_lanes();
  return memory;
}

Result<void> Link::map_full_lanes(int memory) {
  const std::uint64_t size = full_lanes_size(geometry_);
  SPATE_TRY(std::ignore, check_foreign_memory(memory, size));
  SPATE_TRY(full_lanes_, Mapping::of(memory, size, true));
  lay_out_full_lanes();
  return {};
}

// New memory is zero, and everything here begins with zero.
void Link::lay_out_segment(std::uint16_t version) {
  const MutableByteView memory = segment_.view();
  const auto block = [&](Side s) { return std::launder(reinterpret_cast<SideBlock*>(&memory[side_offset(s)])); };
  mine_ = block(side);
  theirs_ = block(other(side));
  const bool narrow = version >= kVersionOfNarrowLanes;
  const Geometry geometry = lanes_of_segment(geometry_, version);
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    const LaneSize& size = geometry.lanes[index_of(c)];
    out_[index_of(c)] = make_lane<LaneWriter>(memory, lane_place(geometry, side, c), size,
                                              narrow ? theirs_->narrow_taken(c) : theirs_->taken(c));
    in_[index_of(c)] = make_lane<LaneReader>(memory, lane_place(geometry, other(side), c), size,
                                             narrow ? mine_->narrow_taken(c) : mine_->taken(c));
  }
  narrow_out_.fill(narrow);
  narrow_in_.fill(narrow);
}

void Link::lay_out_full_lanes() {
  const MutableByteView memory = full_lanes_.view();
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    const LaneSize& size = geometry_.lanes[index_of(c)];
    full_out_[index_of(c)] =
        make_lane<LaneWriter>(memory, full_lane_place(geometry_, side, c), size, theirs_->taken(c));
    full_in_[index_of(c)] =
        make_lane<LaneReader>(memory, full_lane_place(geometry_, other(side), c), size, mine_->taken(c));
  }
}

void Link::widen_out(MessageClass c) {
  out_[index_of(c)] = full_out_[index_of(c)];
  narrow_out_[index_of(c)] = false;
}

void Link::widen_in(MessageClass c) {
  in_[index_of(c)] = full_in_[index_of(c)];
  narrow_in_[index_of(c)] = false;
}

void Link::wake(std::uint32_t bits) {
  if ((theirs_->waits.load(std::memory_order_seq_cst) & bits) == 0) return;
  if ((theirs_->waits.exchange(0, std::memory_order_seq_cst) & bits) == 0) return;
  // A write to an eventfd blocks if the other process cleared O_NONBLOCK and filled the counter. A packet cannot block.
  if (!trusted) {
    (void)send_note(Note{}, -1);  // if the socket is full, its unread packets wake the peer
    return;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(remote_bell_.get(), &one, sizeof one);
}

int Link::send_note(const Note& note, int descriptor) {
  const auto bytes = encode(note);
  return send_packet(socket(), bytes, descriptor < 0 ? std::span<const int>() : std::span(&descriptor, 1));
}

bool Link::show_arena(const ArenaPool& pool, std::uint32_t number) {
  // The arenas are passed in order, because the peer numbers them as they come.
  for (; arenas_shown_ <= number; ++arenas_shown_) {
    const UniqueFd& memory = pool.read_only(arenas_shown_);
    const Note note{Note::Kind::kArena, arenas_shown_, pool.size(arenas_shown_)};
    if (!memory || send_note(note, memory.get()) != 0) return false;
  }
  return true;
}

void Link::close() {
  if (mine_ != nullptr) mine_->closed.store(1, std::memory_order_seq_cst);
  socket_.reset();
  bell_.reset();
  remote_bell_.reset();
  descriptors.clear();
}

}  // namespace spate::bmi::shm
