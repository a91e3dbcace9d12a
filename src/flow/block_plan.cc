// SPDX-License-Identifier: Apache-2.0
#include "flow/block_plan.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace spate::flow {

bool BlockPlan::make(std::span<const Extent> extents, std::uint32_t alignment, std::uint64_t room) {
  alignment_ = alignment;
  sorted_.assign(extents.begin(), extents.end());
  if (!std::is_sorted(sorted_.begin(), sorted_.end(),
                      [](const Extent& a, const Extent& b) { return a.offset < b.offset; })) {
    std::sort(sorted_.begin(), sorted_.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  }
  blocks_.clear();
  for (const Extent& extent : sorted_) {
    const std::uint64_t begin = extent.offset / alignment * alignment;
    const std::uint64_t end = (extent.offset + extent.size + alignment - 1) / alignment * alignment;
    if (!blocks_.empty() && begin <= blocks_.back().range.offset + blocks_.back().range.size) {
      Extent& last = blocks_.back().range;
      last.size = std::max(last.size, end - last.offset);
    } else {
      blocks_.push_back({{begin, end - begin}, 0});
    }
  }
  total_ = 0;
  for (Block& block : blocks_) {
    block.place = total_;
    total_ += block.range.size;
  }
  return total_ <= room;
}

void BlockPlan::read_request(MutableByteView buffer, std::uint64_t file_size) {
  ranges_.clear();
  memory_.clear();
  for (const Block& block : blocks_) {
    if (block.range.offset >= file_size) break;
    const std::uint64_t left = (file_size - block.range.offset + alignment_ - 1) / alignment_ * alignment_;
    const std::uint64_t size = std::min(block.range.size, left);
    ranges_.push_back({block.range.offset, size});
    memory_.push_back(buffer.subspan(block.place, size));
  }
}

std::uint64_t BlockPlan::readable(std::uint64_t file_size) const {
  std::uint64_t total = 0;
  for (const Extent& range : ranges_) {
    if (range.offset < file_size) total += std::min(range.size, file_size - range.offset);
  }
  return total;
}

void BlockPlan::zero_behind(MutableByteView buffer, std::uint64_t got) const {
  std::size_t i = 0;
  for (const Block& block : blocks_) {
    // Range i belongs to block i. Blocks beyond the end of the datafile come last and have no range.
    const std::uint64_t asked = i < ranges_.size() ? ranges_[i++].size : 0;
    const std::uint64_t there = std::min(asked, got);
    got -= there;
    std::memset(buffer.data() + block.place + there, 0, block.range.size - there);
  }
}

void BlockPlan::segments(MutableByteView buffer, std::span<const Extent> extents,
                         std::vector<bmi::Segment>& out) const {
  out.clear();
  for (const Extent& extent : extents) {
    const auto after =
        std::upper_bound(blocks_.begin(), blocks_.end(), extent.offset,
                         [](std::uint64_t offset, const Block& block) { return offset < block.range.offset; });
    SPATE_CHECK(after != blocks_.begin());
    const Block& block = *std::prev(after);
    out.push_back(bmi::Segment::of(buffer.subspan(block.place + extent.offset - block.range.offset, extent.size)));
  }
}

}  // namespace spate::flow
