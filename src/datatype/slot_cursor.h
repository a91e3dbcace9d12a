// SPDX-License-Identifier: Apache-2.0
// SlotCursor: gives the part of a description that one slot holds.
#pragma once

#include <cstdint>
#include <vector>

#include "datatype/cursor.h"
#include "dist/distribution.h"

namespace spate::datatype {

/// A run of one slot: bytes [physical, physical + size) of its datafile are bytes [stream, stream + size) of the
/// stream.
struct SlotPiece {
  std::uint64_t physical = 0;
  std::uint64_t size = 0;
  std::uint64_t stream = 0;
  friend bool operator==(const SlotPiece&, const SlotPiece&) = default;
};

/// The limits of one batch.
struct BatchLimits {
  std::uint64_t max_bytes = ~0ULL;  // >= 1
  std::size_t max_pieces = 1024;    // >= 1
};

/// The intersection of a description and a slot, in stream order: the paper's I/O stream (PVFS sec. 3.2). Client and
/// server move only these bytes, without a header for each piece. Byte i is the same byte on both sides, however each
/// cuts its batches: the client asks for pieces with their place in its memory, the server for extents.
///
/// Lazy: it holds only one batch in memory, and takes time only for the pieces of this slot. A contiguous request is
/// one extent of the datafile, found in O(1), however many strips it spans. Strided or ordered list requests skip bytes
/// of other slots. One batch never examines more than kMaxStepsPerBatch pieces, of this slot or others, so that no
/// request stalls a server's loop. So a batch may be smaller than its limits. It may even be empty before the end, if
/// all examined pieces belong to other slots. The loop is
///   while (!cursor.done()) { cursor.next_extents(limits, batch); ...; }
/// Description and distribution outlive the cursor. One thread at a time; a copy remembers the position.
class SlotCursor {
 public:
  static constexpr std::size_t kMaxStepsPerBatch = 65536;

  SlotCursor(const Description& description, const Distribution& distribution, std::uint32_t slot);

  /// True: nothing is left. False does not promise that something is left (see above).
  bool done() const { return cursor_.done(); }
  /// Bytes of the slot's stream in all batches so far.
  std::uint64_t slot_offset() const { return slot_offset_; }

  /// For a server: the next extents of the datafile, neighbours merged. Replaces `out`; returns the bytes in it.
  std::uint64_t next_extents(const BatchLimits& limits, std::vector<Extent>& out);
  /// For a client: the same bytes as pieces with their stream offset, merged if they are neighbours on both sides.
  /// Calls of both functions may be mixed. Replaces `out`; returns the bytes in it.
  std::uint64_t next_batch(const BatchLimits& limits, std::vector<SlotPiece>& out);

 private:
  struct Run {  // of the slot: bytes [begin, end) of the file lie at `physical`; [gap, begin) has none of the slot's
                // bytes
    std::uint64_t gap = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t physical = 0;
  };
  /// Pieces of one size, `stride` bytes apart in the datafile and neighbours in the stream: `piece` and `more` others.
  struct Row {
    SlotPiece piece;
    std::uint64_t more = 0;
    std::uint64_t stride = 0;
  };
  /// Calls accept(next row of the slot) for at most max_bytes. `accept` returns how many of the row's pieces it takes;
  /// the walk ends when it takes none. Returns the number of bytes accepted.
  template <typename Accept>
  std::uint64_t walk(std::uint64_t max_bytes, bool across_strips, const Accept& accept);
  bool settle();
  void settle_within(std::size_t steps);
  void find_run(std::uint64_t logical);
  SlotPiece peek(std::uint64_t max_bytes, bool across_strips) const;
  std::uint64_t more_in_row(const SlotPiece& piece, const Cursor::Run& row, std::uint64_t most) const;
  void advance(const SlotPiece& taken);

  const Distribution* distribution_;
  std::uint32_t slot_;
  Cursor cursor_;
  std::uint64_t position_ = 0;  // in the file, in or at the end of the cursor's piece
  std::uint64_t slot_offset_ = 0;
  Run run_;
};

}  // namespace spate::datatype
