// SPDX-License-Identifier: Apache-2.0
#include "datatype/slot_cursor.h"

#include <algorithm>

#include "base/check.h"

namespace spate::datatype {

SlotCursor::SlotCursor(const Description& description, const Distribution& distribution, std::uint32_t slot)
    : distribution_(&distribution), slot_(slot), cursor_(description) {
  SPATE_CHECK(slot < distribution.slot_count());
  if (!cursor_.done()) position_ = cursor_.piece().offset;
  settle_within(kMaxStepsPerBatch);
}

std::uint64_t SlotCursor::next_extents(const BatchLimits& limits, std::vector<Extent>& out) {
  out.clear();
  SPATE_CHECK(limits.max_pieces >= 1);
  return walk(limits.max_bytes, true, [&](const Row& row) -> std::uint64_t {
    const SlotPiece& piece = row.piece;
    if (!out.empty() && out.back().offset + out.back().size == piece.physical) {
      out.back().size += piece.size;
      return 1;
    }
    const std::uint64_t count = std::min<std::uint64_t>(row.more + 1, limits.max_pieces - out.size());
    for (std::uint64_t i = 0; i < count; ++i) out.push_back({piece.physical + i * row.stride, piece.size});
    return count;
  });
}

std::uint64_t SlotCursor::next_batch(const BatchLimits& limits, std::vector<SlotPiece>& out) {
  out.clear();
  SPATE_CHECK(limits.max_pieces >= 1);
  return walk(limits.max_bytes, false, [&](const Row& row) -> std::uint64_t {
    const SlotPiece& piece = row.piece;
    if (!out.empty() && out.back().physical + out.back().size == piece.physical &&
        out.back().stream + out.back().size == piece.stream) {
      out.back().size += piece.size;
      return 1;
    }
    const std::uint64_t count = std::min<std::uint64_t>(row.more + 1, limits.max_pieces - out.size());
    for (std::uint64_t i = 0; i < count; ++i) {
      out.push_back({piece.physical + i * row.stride, piece.size, piece.stream + i * piece.size});
    }
    return count;
  });
}

template <typename Accept>
std::uint64_t SlotCursor::walk(std::uint64_t max_bytes, bool across_strips, const Accept& accept) {
  SPATE_CHECK(max_bytes >= 1);
  std::uint64_t bytes = 0;
  std::size_t steps = 0;
  while (!cursor_.done() && bytes < max_bytes && steps < kMaxStepsPerBatch) {
    if (!settle()) {
      ++steps;
      continue;
    }
    Row row;
    row.piece = peek(max_bytes - bytes, across_strips);
    const Cursor::Run run = cursor_.run();
    row.more = more_in_row(row.piece, run, std::min((max_bytes - bytes) / row.piece.size, kMaxStepsPerBatch - steps));
    row.stride = run.stride;
    const std::uint64_t taken = accept(row);
    if (taken == 0) break;
    if (taken > 1) {
      cursor_.next_in_run(taken - 1);
      position_ = cursor_.piece().offset;
      steps += taken - 1;
    }
    advance(SlotPiece{row.piece.physical + (taken - 1) * row.stride, row.piece.size, 0});
    bytes += taken * row.piece.size;
  }
  slot_offset_ += bytes;
  settle_within(kMaxStepsPerBatch - steps);  // so that done() becomes true as early as possible
  return bytes;
}

void SlotCursor::settle_within(std::size_t steps) {
  while (steps-- > 0 && !cursor_.done() && !settle()) {
  }
}

/// Moves to the slot's next byte in the current piece. False: the piece had none, and the cursor has moved to the next
/// piece.
bool SlotCursor::settle() {
  const std::uint64_t end = cursor_.piece().end();
  if (position_ < run_.gap || position_ >= run_.end) find_run(position_);
  position_ = std::max(position_, run_.begin);
  if (position_ < end) return true;
  cursor_.next_outside(run_.gap, run_.begin);
  if (!cursor_.done()) position_ = cursor_.piece().offset;
  return false;
}

void SlotCursor::find_run(std::uint64_t logical) {
  const std::uint64_t physical = distribution_->physical_size(slot_, logical);
  const std::uint64_t begin = distribution_->to_logical(slot_, physical);
  run_ = {logical, begin, begin + distribution_->contiguous_bytes(begin), physical};
}

/// The next bytes of the slot from the position on. The position lies in run_ and in the current piece.
SlotPiece SlotCursor::peek(std::uint64_t max_bytes, bool across_strips) const {
  const Piece& piece = cursor_.piece();
  SlotPiece next;
  next.physical = run_.physical + position_ - run_.begin;
  next.stream = piece.stream + position_ - piece.offset;
  if (across_strips && piece.end() > run_.end) {
    next.size = distribution_->physical_size(slot_, piece.end()) - next.physical;
  } else {
    next.size = std::min(piece.end(), run_.end) - position_;
  }
  next.size = std::min(next.size, max_bytes);
  return next;
}

/// How many blocks after `piece` lie in run_ in the same way. With `piece` there are at most `most`.
std::uint64_t SlotCursor::more_in_row(const SlotPiece& piece, const Cursor::Run& row, std::uint64_t most) const {
  const Piece& block = cursor_.piece();
  if (row.count == 0 || most == 0 || piece.size != block.size || block.end() > run_.end) return 0;
  return std::min({row.count, most - 1, (run_.end - block.end()) / row.stride});
}

void SlotCursor::advance(const SlotPiece& taken) {
  if (taken.size <= run_.end - position_) {
    position_ += taken.size;
    return;
  }
  // The slot's next byte may lie beyond the piece; settle() handles that.
  position_ = std::min(distribution_->to_logical(slot_, taken.physical + taken.size), cursor_.piece().end());
}

}  // namespace spate::datatype
