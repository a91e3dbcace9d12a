// SPDX-License-Identifier: Apache-2.0
#include "bmi/op_table.h"

namespace spate::bmi {

void CompletionQueue::push(Op& op) {
  op.previous = tail_;
  op.next = nullptr;
  (tail_ != nullptr ? tail_->next : head_) = &op;
  tail_ = &op;
  ++size_;
}

void CompletionQueue::remove(Op& op) {
  (op.previous != nullptr ? op.previous->next : head_) = op.next;
  (op.next != nullptr ? op.next->previous : tail_) = op.previous;
  --size_;
}

Op* OpTable::allocate() {
  std::uint32_t slot = used_;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else if (used_ < kNoSlot) {
    ++used_;
  } else {
    return nullptr;
  }
  Op& op = slots_.at(slot);
  op.id = OpId(++op.generation << kOpSlotBits | slot);
  op.done = false;
  op.cancel_requested = false;
  op.attempts = 0;
  return &op;
}

Op* OpTable::find(OpId id) {
  Op* op = slots_.find(op_slot(id));
  return op != nullptr && id && op->id == id ? op : nullptr;
}

void OpTable::release(Op& op) {
  constexpr std::size_t kSegmentsKept = 64;
  free_.push_back(op_slot(op.id));
  op.id = OpId();
  if (op.saved.segments.capacity() > kSegmentsKept) std::vector<Segment>().swap(op.saved.segments);
}

}  // namespace spate::bmi
