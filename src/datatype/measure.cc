// SPDX-License-Identifier: Apache-2.0
#include "datatype/measure.h"

#include <algorithm>

namespace spate::datatype {
namespace {

/// The slots found so far.
struct Touched {
  std::vector<bool> seen;
  std::size_t count = 0;
  void add(std::uint32_t slot) {
    if (!seen[slot]) ++count;
    seen[slot] = true;
  }
  bool all() const { return count == seen.size(); }
};

/// Adds the slots of one piece: strip by strip or, if the piece has more strips than there are slots, slot by slot.
/// Returns the strip in which the piece ends, because other bytes in that strip need no look. Returns an empty extent
/// if the walk has not reached that strip.
Extent add_slots(const Piece& piece, const Distribution& distribution, Touched& touched) {
  std::uint64_t at = piece.offset;
  for (std::size_t strips = 0; strips < touched.seen.size(); ++strips) {
    touched.add(distribution.to_physical(at).slot);
    const std::uint64_t size = distribution.contiguous_bytes(at);
    if (size >= piece.end() - at) return {at, size};
    if (touched.all()) return {};
    at += size;
  }
  for (std::uint32_t slot = 0; slot < touched.seen.size(); ++slot) {
    if (distribution.next_in_slot(slot, at) < piece.end()) touched.add(slot);
  }
  return {};
}

/// One past the highest byte of a pattern, ignoring the window.
std::uint64_t pattern_end(const Description& description) {
  std::uint64_t end = description.offset() + description.block_bytes();
  for (const Level& level : description.levels()) end += (level.count - 1) * level.stride;
  return end;
}

/// valid_bytes() of an ordered strided description: finds the first byte of the stream at or beyond the end of the
/// file.
std::uint64_t valid_by_bisection(const Description& description, std::uint64_t logical_size) {
  std::uint64_t low = 0;
  std::uint64_t high = description.total_bytes();
  Cursor cursor(description);
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    cursor.seek(middle);
    if (cursor.piece().offset < logical_size) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool disjoint(std::vector<Extent> pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i - 1].offset + pieces[i - 1].size > pieces[i].offset) return false;
  }
  return true;
}

/// Whether the levels, sorted by stride, repeat without overlap. The order of levels does not change the bytes named.
bool nests_when_sorted(const Description& description) {
  std::vector<Level> levels(description.levels().begin(), description.levels().end());
  std::sort(levels.begin(), levels.end(), [](const Level& a, const Level& b) { return a.stride < b.stride; });
  std::uint64_t span = description.block_bytes();
  for (const Level& level : levels) {
    if (level.stride < span) return false;
    span += (level.count - 1) * level.stride;
  }
  return true;
}

}  // namespace

std::vector<std::uint32_t> slots_touched(const Description& description, const Distribution& distribution) {
  Touched touched;
  touched.seen.resize(distribution.slot_count());
  Cursor cursor(description);
  while (!cursor.done() && !touched.all()) {
    const Extent strip = add_slots(cursor.piece(), distribution, touched);
    cursor.next_outside(strip.offset, strip.offset + strip.size);
  }
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 0; slot < touched.seen.size(); ++slot) {
    if (touched.seen[slot]) slots.push_back(slot);
  }
  return slots;
}

std::uint64_t bytes_for_slot(const Description& description, const Distribution& distribution, std::uint32_t slot) {
  SlotCursor cursor(description, distribution, slot);
  std::vector<Extent> batch;
  while (!cursor.done()) cursor.next_extents({}, batch);
  return cursor.slot_offset();
}

std::uint64_t file_end(const Description& description) {
  if (description.empty()) return 0;
  if (description.ordered() && description.kind() != DescriptionKind::kList) {
    Cursor cursor(description);
    cursor.seek(description.total_bytes() - 1);
    return cursor.piece().end();
  }
  std::uint64_t end = 0;
  for (Cursor cursor(description); !cursor.done(); cursor.next()) end = std::max(end, cursor.piece().end());
  return end;
}

std::uint64_t valid_bytes(const Description& description, std::uint64_t logical_size) {
  if (description.kind() != DescriptionKind::kList && pattern_end(description) <= logical_size)
    return description.total_bytes();
  if (description.kind() == DescriptionKind::kStrided && description.ordered()) {
    return valid_by_bisection(description, logical_size);
  }
  for (Cursor cursor(description); !cursor.done(); cursor.next()) {
    const Piece& piece = cursor.piece();
    if (piece.offset >= logical_size) return piece.stream;
    if (piece.end() > logical_size) return piece.stream + logical_size - piece.offset;
  }
  return description.total_bytes();
}

std::uint64_t present_bytes(const Description& description, const Distribution& distribution, std::uint32_t slot,
                            std::uint64_t datafile_size) {
  SlotCursor cursor(description, distribution, slot);
  std::vector<Extent> batch;
  std::uint64_t at = 0;
  std::uint64_t present = 0;
  while (!cursor.done()) {
    cursor.next_extents({}, batch);
    for (const Extent& extent : batch) {
      if (extent.offset < datafile_size) present = at + std::min(extent.size, datafile_size - extent.offset);
      at += extent.size;
    }
  }
  return present;
}

Result<void> check_disjoint(const Description& description) {
  if (description.ordered()) return {};
  bool good = false;
  if (description.kind() == DescriptionKind::kList) {
    good = disjoint({description.pieces().begin(), description.pieces().end()});
  } else if (nests_when_sorted(description)) {
    good = true;
  } else if (description.blocks() <= kMaxListPieces) {
    std::vector<Extent> pieces;
    for (Cursor cursor(description); !cursor.done(); cursor.next()) {
      pieces.push_back({cursor.piece().offset, cursor.piece().size});
    }
    good = disjoint(std::move(pieces));
  }
  if (!good) return Error(Errc::kInvalidArgument, "the pieces of a write overlap, or are too many to compare");
  return {};
}

}  // namespace spate::datatype
