// SPDX-License-Identifier: Apache-2.0
#include "flow/block_aligner.h"

#include <algorithm>

namespace spate::flow {

BlockAligner::Blocks BlockAligner::take(MutableByteView buffer, std::uint64_t size) {
  const std::uint64_t base = down(next_);  // place of the buffer's first byte in the datafile
  const std::uint64_t end = next_ + size;
  const MutableByteView message = buffer.subspan(next_ - base, size);
  std::uint64_t begin = partial_at_;
  if (begin % alignment_ != 0) {  // still in the run's first block, whose beginning is not part of the run
    const std::uint64_t block_end = down(begin) + alignment_;
    const std::uint64_t rest = std::min(block_end, end) - next_;
    partial_.insert(partial_.end(), message.begin(), message.begin() + static_cast<std::ptrdiff_t>(rest));
    if (end >= block_end) {
      edges_.push_back({begin, std::move(partial_)});
      partial_.clear();
      begin = block_end;
    }
  }
  const bool whole = begin % alignment_ == 0;
  const std::uint64_t full = down(end);
  Blocks blocks;
  if (whole && full > begin) {
    // The partial block is the front of this buffer's first block.
    if (!partial_.empty()) std::copy(partial_.begin(), partial_.end(), buffer.begin());
    blocks = {begin, ByteView(buffer).subspan(begin - base, full - begin)};
    partial_.assign(buffer.begin() + static_cast<std::ptrdiff_t>(full - base),
                    buffer.begin() + static_cast<std::ptrdiff_t>(end - base));
    begin = full;
  } else if (whole) {
    const std::uint64_t from = std::max(next_, begin);
    partial_.insert(partial_.end(), buffer.begin() + static_cast<std::ptrdiff_t>(from - base),
                    buffer.begin() + static_cast<std::ptrdiff_t>(end - base));
  }
  partial_at_ = begin;
  next_ = end;
  return blocks;
}

std::vector<Edge> BlockAligner::finish() {
  if (!partial_.empty()) edges_.push_back({partial_at_, std::move(partial_)});
  partial_.clear();
  return std::move(edges_);
}

}  // namespace spate::flow
