// SPDX-License-Identifier: Apache-2.0
// BlockPlan: widens extents of a datafile to whole blocks, and gives each a place in a buffer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bmi/network.h"
#include "model/extent.h"

namespace spate::flow {

/// For direct reads: the device fills the buffer with whole blocks, and the wanted pieces are sent from their places in
/// it. Extents may overlap and come in any order. A value; reused from message to message.
class BlockPlan {
 public:
  /// `alignment`: a power of two. False: all blocks together do not fit into `room` bytes.
  bool make(std::span<const Extent> extents, std::uint32_t alignment, std::uint64_t room);

  /// Builds a read request: the blocks up to `file_size`, which is rounded up to whole blocks, ascending, and their
  /// memory in `buffer` (aligned). It is valid until the next call of any function of this class.
  void read_request(MutableByteView buffer, std::uint64_t file_size);
  std::span<const Extent> ranges() const { return ranges_; }
  std::span<const MutableByteView> memory() const { return memory_; }
  /// How many bytes the request yields of a datafile of this size.
  std::uint64_t readable(std::uint64_t file_size) const;
  /// Call it when the first `got` bytes have been read. Fills the rest of the plan with zeros.
  void zero_behind(MutableByteView buffer, std::uint64_t got) const;

  /// Gives the parts of `buffer` that hold the extents, in the order in which make() got them.
  void segments(MutableByteView buffer, std::span<const Extent> extents, std::vector<bmi::Segment>& out) const;

 private:
  struct Block {
    Extent range;             // of the datafile, whole blocks
    std::uint64_t place = 0;  // in the buffer
  };
  std::uint32_t alignment_ = 1;
  std::uint64_t total_ = 0;
  std::vector<Extent> sorted_;
  std::vector<Block> blocks_;  // ascending; no two touch
  std::vector<Extent> ranges_;
  std::vector<MutableByteView> memory_;
};

}  // namespace spate::flow
