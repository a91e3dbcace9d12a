// SPDX-License-Identifier: Apache-2.0
// OpTable: the core's record of each operation in flight, and the queues of completions that callers have not taken
// yet.
#pragma once

#include <cstdint>
#include <vector>

#include "bmi/module.h"
#include "bmi/slot_table.h"

namespace spate::bmi {

enum class OpKind : std::uint8_t { kSend, kReceive, kSendUnexpected };

/// The parameters of a post, to post the operation again by another module. Kept only for addresses with several URLs.
struct SavedPost {
  Tag tag;
  MessageClass message_class = MessageClass::kControl;
  bool receiver_ready = false;
  std::vector<Segment> segments;  // keeps its capacity from operation to operation
  std::uint64_t size = 0;
};

/// One operation. Pinned in its slot; free, posted, or done and queued in its context.
struct Op {
  OpId id;  // 0: free
  ContextId context;
  void* user = nullptr;
  Address peer;
  OpKind kind = OpKind::kSend;
  bool done = false;
  bool cancel_requested = false;
  std::uint32_t url = 0;       // the index of the URL to which it was posted
  std::uint32_t attempts = 0;  // how many URLs have failed
  Errc status = Errc::kOk;     // when done
  std::uint64_t actual_size = 0;
  Op* previous = nullptr;  // in its CompletionQueue, when done
  Op* next = nullptr;
  std::uint64_t generation = 0;
  SavedPost saved;

  Completion completion() const { return Completion{id, user, status, actual_size}; }
};

/// Completions of one context in the order of arrival. Any of them can be removed in O(1). Does not own the operations.
/// An operation is in one queue at most, from the moment it is done until its completion is taken. Not thread-safe: the
/// core's lock guards it.
class CompletionQueue {
 public:
  void push(Op& op);
  void remove(Op& op);
  Op* front() const { return head_; }
  std::size_t size() const { return size_; }

 private:
  Op* head_ = nullptr;
  Op* tail_ = nullptr;
  std::size_t size_ = 0;
};

/// The operations in flight, in slots. Life cycle of an operation: allocate() -> posted -> done, in the CompletionQueue
/// of its context -> removed from the queue -> release(). An Op never moves and is destroyed with the table. Each use
/// of a slot has another id, so find() never takes a new operation for an old one. All functions are O(1). Not
/// thread-safe: the core's lock guards it.
class OpTable {
 public:
  /// A free Op with a fresh id; null when 2^kOpSlotBits - 1 are in flight.
  Op* allocate();
  /// An id for an operation that has ended already and needs no slot. find() does not find it.
  OpId id_alone() { return OpId(++alone_ << kOpSlotBits | kNoSlot); }
  /// The live operation of that id, or null.
  Op* find(OpId id);
  /// `op` is not queued.
  void release(Op& op);

 private:
  static constexpr std::uint32_t kNoSlot = (std::uint32_t{1} << kOpSlotBits) - 1;

  SlotTable<Op> slots_;
  std::vector<std::uint32_t> free_;  // the one that was freed last is used first, because its memory is warm
  std::uint32_t used_ = 0;           // slots ever used; never kNoSlot
  std::uint64_t alone_ = 0;          // ids without a slot so far
};

}  // namespace spate::bmi
