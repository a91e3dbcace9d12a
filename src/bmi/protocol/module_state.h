// SPDX-License-Identifier: Apache-2.0
// ModuleState: what the peers of one module share: operations, reports to the core, limits, counters.
#pragma once

#include <cstdint>
#include <vector>

#include "bmi/module.h"
#include "bmi/outbox.h"
#include "bmi/protocol/limits.h"
#include "bmi/protocol/op.h"
#include "bmi/protocol/peer_record.h"
#include "bmi/slot_table.h"

namespace spate::bmi::protocol {

/// What the protocol counts of all peers; each module's counters take over what it shows.
struct Counters {
  std::uint64_t sent_messages = 0;      // begun to be sent, by operations
  std::uint64_t received_messages = 0;  // and kept
  std::uint64_t dropped_messages = 0;   // without the receive that was said to be there
  std::uint64_t aborted = 0;            // messages of peers that gave up halfway
  std::uint64_t credit_stalls = 0;      // sends that waited for the peer's room
};

/// A peer whose connection is to be dropped when none of its functions is on the stack.
struct Loss {
  PeerId peer;  // it may have been forgotten before the loss is handled
  Errc status = Errc::kConnectionLost;
};

/// The module's lock guards it.
struct ModuleState {
  /// The operation of a post, filled in and linked to its peer.
  Op& begin_op(const Post& post, PeerRecord& peer, bool receive, bool unexpected);
  /// Frees the operation; its caller knows its end.
  void release(Op& op);
  /// Reports the operation's end and frees it.
  void completed(Op& op, Errc status, std::uint64_t actual_size);
  /// The same; within the operation's post, its success is the post's own result.
  void finish(Op& op, Errc status, std::uint64_t actual_size) {
    if (op.in_post && status == Errc::kOk) {
      op.done_in_post = true;
    } else {
      completed(op, status, actual_size);
    }
  }
  /// The live operation of that id, or null.
  Op* find_op(OpId id) {
    Op* op = ops.find(op_slot(id));
    return op != nullptr && id && op->id == id ? op : nullptr;
  }
  void lose_later(const PeerRecord& peer, Errc status) { lost.push_back(Loss{peer.id, status}); }

  const NetworkOptions* options = nullptr;
  Limits limits;  // what this side allows
  SlotTable<Op> ops;
  Outbox<PeerRecord> outbox;
  std::vector<Loss> lost;
  Counters counters;
};

}  // namespace spate::bmi::protocol
