// SPDX-License-Identifier: Apache-2.0
#include "bmi/segments.h"

#include "base/copy.h"

namespace spate::bmi {

void SegmentStore::assign_several(SegmentList list) {
  if (count_ <= kInline) {
    std::ranges::copy(list, few_.begin());
  } else {
    many_.assign(list.begin(), list.end());
  }
}

void SegmentStore::release() {
  constexpr std::size_t kKept = 64;
  count_ = 0;
  if (many_.capacity() > kKept) std::vector<Segment>().swap(many_);
}

std::uint64_t SegmentCursor::gather(Pieces& pieces, std::uint64_t limit) const {
  std::uint64_t added = 0;
  std::uint64_t at = at_;
  for (std::size_t i = index_; i < list_.size() && added < limit; ++i) {
    const Segment& segment = list_[i];
    const std::uint64_t size = std::min(segment.size - at, limit - added);
    if (size > 0) {
      if (segment.memory == nullptr || pieces.full()) break;
      pieces.add(segment.memory + at, size);
      added += size;
    }
    at = 0;
  }
  return added;
}

std::uint64_t SegmentCursor::rest(std::uint64_t most) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = index_; i < list_.size() && bytes < most; ++i) bytes += list_[i].size - (i == index_ ? at_ : 0);
  return bytes;
}

void SegmentCursor::advance(std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t step = std::min(bytes, left_in_segment());
    at_ += step;
    bytes -= step;
    skip_empty();
  }
}

void SegmentCursor::copy_in(const std::byte* from, std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t step = std::min(bytes, left_in_segment());
    copy_memory(list_[index_].memory + at_, from, step);
    from += step;
    bytes -= step;
    at_ += step;
    skip_empty();
  }
}

}  // namespace spate::bmi
