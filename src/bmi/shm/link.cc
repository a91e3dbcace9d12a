// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/link.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "base/check.h"

namespace spate::bmi::shm {

int Link::own_bell() {
  if (!bell_) bell_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return bell_.get();
}

Result<UniqueFd> Link::make_segment(const Geometry& geometry) {
  const std::uint64_t size = segment_size(geometry);
  SPATE_TRY(UniqueFd memory, make_memory("spate-link", size));
  SPATE_TRY(segment_, Mapping::of(memory.get(), size, true));
  lay_out(geometry);
  return memory;
}

Result<void> Link::map_segment(const Geometry& geometry, int memory) {
  const std::uint64_t size = segment_size(geometry);
  SPATE_TRY(std::ignore, check_foreign_memory(memory, size));
  SPATE_TRY(segment_, Mapping::of(memory, size, true));
  lay_out(geometry);
  return {};
}

void Link::lay_out(const Geometry& geometry) {
  // Fresh memory is zero, which is how all of these begin.
  const MutableByteView memory = segment_.view();
  const auto block = [&](Side s) { return std::launder(reinterpret_cast<SideBlock*>(&memory[side_offset(s)])); };
  mine_ = block(side);
  theirs_ = block(other(side));
  for (std::size_t i = 0; i < kClasses; ++i) {
    const LaneSize& size = geometry.lanes[i];
    const auto slots = [&](const LanePlace& place) {
      return std::span(std::launder(reinterpret_cast<Slot*>(&memory[place.slots])), size.slots);
    };
    const LanePlace to = lane_place(geometry, side, static_cast<MessageClass>(i));
    const LanePlace from = lane_place(geometry, other(side), static_cast<MessageClass>(i));
    out_[i] =
        LaneWriter(slots(to), memory.subspan(to.data, size.bytes), theirs_->slots_taken[i], theirs_->bytes_taken[i]);
    in_[i] =
        LaneReader(slots(from), memory.subspan(from.data, size.bytes), mine_->slots_taken[i], mine_->bytes_taken[i]);
  }
}

void Link::wake(std::uint32_t bits) {
  if ((theirs_->waits.load(std::memory_order_seq_cst) & bits) == 0) return;
  if ((theirs_->waits.exchange(0, std::memory_order_seq_cst) & bits) == 0) return;
  // Writing to an eventfd may block when its other owner wants it to (F_SETFL, and a full counter); a packet cannot.
  if (!trusted) {
    (void)send_note(Note{}, -1);  // no room for a packet: there are unread ones that wake it
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
  // In order: the peer numbers them as they come.
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
