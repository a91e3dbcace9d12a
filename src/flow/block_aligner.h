// SPDX-License-Identifier: Apache-2.0
// BlockAligner: cuts a run of bytes that arrives in messages, so that all of it but its two ends is written in whole
// blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace spate::flow {

/// An end of a run that does not fill a block. It is written through the page cache: to read, change and write the
/// whole block would undo what others write into the rest of the block.
struct Edge {
  std::uint64_t offset = 0;  // in the datafile
  Bytes data;
};

/// Each message is received at the place in its buffer that corresponds to its place in the block on the device. When
/// two messages share a block, the bytes of the first are copied to the front of the second one's buffer. So less than
/// a block is copied for each message. A value, for one run.
class BlockAligner {
 public:
  /// `offset`: where the run begins in the datafile. `alignment`: a power of two.
  BlockAligner(std::uint64_t offset, std::uint32_t alignment)
      : next_(offset), alignment_(alignment), partial_at_(offset) {}

  /// How many bytes of the buffer to leave free before the message that begins at `offset`.
  std::uint64_t lead(std::uint64_t offset) const { return offset % alignment_; }

  /// Whole blocks to write now. `data` lies in the buffer. Empty: none.
  struct Blocks {
    std::uint64_t offset = 0;
    ByteView data;
  };
  /// Takes the next `size` bytes of the run, which lie in `buffer` after lead() bytes. Keeps the bytes that cannot be
  /// written yet.
  Blocks take(MutableByteView buffer, std::uint64_t size);
  /// The run has ended. Returns its ends, at most two.
  std::vector<Edge> finish();

 private:
  std::uint64_t down(std::uint64_t offset) const { return offset / alignment_ * alignment_; }
  std::uint64_t next_;  // where the next message begins in the datafile
  std::uint32_t alignment_;
  std::uint64_t partial_at_;  // place of the first byte of partial_, which ends at next_
  Bytes partial_;
  std::vector<Edge> edges_;
};

}  // namespace spate::flow
