// SPDX-License-Identifier: Apache-2.0
// BlockCarry: a run of bytes that comes in messages, cut so that all but its ends is written in whole blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace spate::flow {

/// The ends of a run, where it does not fill a block: written through the page cache, never by reading the block,
/// changing and writing it, which would undo what others write into the rest of it.
struct Edge {
  std::uint64_t offset = 0;  // in the datafile
  Bytes data;
};

/// Messages are received so that each byte lies in its buffer as in its block on the device: the bytes of a block that
/// two messages share are carried from the first one's end to the front of the second one's buffer (less than a block
/// is copied a message). A value; one run.
class BlockCarry {
 public:
  /// `offset`: where the run begins in the datafile. `alignment`: a power of two.
  BlockCarry(std::uint64_t offset, std::uint32_t alignment) : next_(offset), alignment_(alignment), carry_at_(offset) {}

  /// Where in its buffer the message that begins at `offset` has to lie: so many bytes are left free before it.
  std::uint64_t lead(std::uint64_t offset) const { return offset % alignment_; }

  /// Whole blocks to be written now: `data` lies in the buffer. Empty: none.
  struct Blocks {
    std::uint64_t offset = 0;
    ByteView data;
  };
  /// The next `size` bytes of the run are in `buffer` behind lead(). What must not be written yet is kept.
  Blocks take(MutableByteView buffer, std::uint64_t size);
  /// The run has ended: its ends, at most two.
  std::vector<Edge> finish();

 private:
  std::uint64_t down(std::uint64_t offset) const { return offset / alignment_ * alignment_; }
  std::uint64_t next_;  // of the run, what the next message begins with
  std::uint32_t alignment_;
  std::uint64_t carry_at_;  // place of the first byte of carry_, which ends at next_
  Bytes carry_;
  std::vector<Edge> edges_;
};

}  // namespace spate::flow
