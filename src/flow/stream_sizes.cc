// SPDX-License-Identifier: Apache-2.0
#include "flow/stream_sizes.h"

#include <algorithm>

#include "datatype/slot_cursor.h"
#include "flow/extents.h"

namespace spate::flow {
namespace {

using datatype::SlotCursor;

std::uint64_t contiguous_bytes(const datatype::Description& what, const Distribution& distribution,
                               std::uint32_t slot) {
  return distribution.physical_size(slot, what.offset() + what.total_bytes()) -
         distribution.physical_size(slot, what.offset());
}

/// Lets the other coroutines run after every SlotCursor::kMaxStepsPerBatch blocks.
class Pauses {
 public:
  Pauses(job::Executor& executor, const datatype::Description& what)
      : executor_(executor), blocks_(std::min<std::uint64_t>(what.blocks(), SlotCursor::kMaxStepsPerBatch)) {}

  /// Call it before a cursor is made and before each batch. True: await the executor's yield() first.
  bool due() {
    const bool is_due = examined_ >= SlotCursor::kMaxStepsPerBatch;
    examined_ = (is_due ? 0 : examined_) + blocks_;
    return is_due;
  }
  auto pause() { return executor_.yield(); }

 private:
  job::Executor& executor_;
  const std::uint64_t blocks_;  // the most that one batch may examine
  std::uint64_t examined_ = 0;
};

}  // namespace

job::Task<std::vector<std::uint64_t>> stream_sizes_up_to(job::Executor& executor, const datatype::Description& what,
                                                         const Distribution& distribution,
                                                         std::span<const std::uint32_t> slots, std::uint64_t limit) {
  Pauses pauses(executor, what);
  std::vector<std::uint64_t> sizes;
  sizes.reserve(slots.size());
  std::vector<Extent> extents;
  for (const std::uint32_t slot : slots) {
    std::uint64_t bytes = 0;
    if (what.kind() == datatype::DescriptionKind::kContiguous) {
      bytes = contiguous_bytes(what, distribution, slot);
    } else {
      if (pauses.due()) co_await pauses.pause();
      SlotCursor cursor(what, distribution, slot);
      while (!cursor.done() && bytes <= limit) {
        if (pauses.due()) co_await pauses.pause();
        bytes += cursor.next_extents({limit + 1 - bytes, kMaxPieces}, extents);
      }
    }
    if (bytes > limit) co_return std::vector<std::uint64_t>();
    limit -= bytes;
    sizes.push_back(bytes);
  }
  co_return sizes;
}

}  // namespace spate::flow
