// SPDX-License-Identifier: Apache-2.0
// Cursor: gives the pieces of a description, one after the other.
#pragma once

#include <array>
#include <cstdint>

#include "datatype/description.h"

namespace spate::datatype {

/// A contiguous run of the file: its `size` bytes at `offset` are bytes [stream, stream + size) of the stream.
struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t stream = 0;
  std::uint64_t end() const { return offset + size; }
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// Walks a description in stream order and merges neighbours: consecutive pieces never touch. Takes no memory beyond
/// its own, however large the description is. Each step is O(levels). The description outlives the cursor. Copyable: a
/// copy remembers the position. One thread at a time.
class Cursor {
 public:
  explicit Cursor(const Description& description);

  bool done() const { return piece_.size == 0; }
  /// The current piece; only while !done().
  const Piece& piece() const { return piece_; }
  void next();
  /// Like next(), but also skips pieces that lie completely within [from, to) of the file, as far as it can without a
  /// walk. It may still stop at such a piece. O(levels), however many blocks it skips; O(pieces skipped) in a list.
  void next_outside(std::uint64_t from, std::uint64_t to);
  /// The pieces that follow the current one in its row of blocks: `count` pieces of the same size, each `stride` bytes
  /// of the file after the one before, and next to it in the stream. The row may have more of them. 0 in a list.
  struct Run {
    std::uint64_t count = 0;
    std::uint64_t stride = 0;
  };
  Run run() const;
  /// Like next(), `count` times; 1 <= count <= run().count. O(1).
  void next_in_run(std::uint64_t count);
  /// Goes to the piece that holds byte `stream` of the stream; the piece then begins at that byte. Done if no piece
  /// holds it. O(levels); O(pieces) in a list.
  void seek(std::uint64_t stream);

 private:
  void load();
  void load_raw();
  void step_raw();
  void end();
  void seek_list(std::uint64_t stream);
  void seek_block(std::uint64_t block);
  void place_block();
  void skip_blocks(std::uint64_t from, std::uint64_t to);

  const Description* description_;
  Piece piece_;
  Piece raw_;  // the block ahead, cut to the window and not yet merged; size 0 at the end
  // The block ahead. In a list: its index; otherwise an index for each level. Also its offset in the file and in the
  // stream (a pattern's own stream, before it is cut to a window), and its size.
  std::size_t list_index_ = 0;
  std::array<std::uint64_t, kMaxLevels> index_{};
  std::uint64_t block_offset_ = 0;
  std::uint64_t block_stream_ = 0;
  std::uint64_t block_size_ = 0;
  std::array<std::uint64_t, kMaxLevels> span_{};    // a level: from the first to the last byte of its repeated part
  std::array<std::uint64_t, kMaxLevels> stream_{};  // a level: stream bytes of its repeated part
};

}  // namespace spate::datatype
