// SPDX-License-Identifier: Apache-2.0
// ModuleState: what the peers of one module share: operations, reports to the core, limits, counters.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "bmi/module.h"
#include "bmi/outbox.h"
#include "bmi/protocol/limits.h"
#include "bmi/protocol/op.h"
#include "bmi/protocol/peer_record.h"
#include "bmi/slot_table.h"

namespace spate::bmi::protocol {

/// Counters of the protocol, over all peers. Each module copies those that it shows to its own counters.
struct Counters {
  std::uint64_t sent_messages = 0;      // sends that were begun as operations
  std::uint64_t received_messages = 0;  // received and kept
  std::uint64_t dropped_messages = 0;   // announced as having a receive, which was not there
  std::uint64_t aborted = 0;            // messages whose sender gave up halfway
  std::uint64_t credit_stalls = 0;      // sends that had to wait for credit
};

/// A peer to lose later, when none of its functions is on the stack.
struct Loss {
  PeerId peer;  // it may have been forgotten before the loss is handled
  Errc status = Errc::kConnectionLost;
};

/// Filled in by Module::start(), used until the module ends. The module's lock guards it.
///
/// An operation lives in its slot from begin_op() to release(), completed() or finish(). Each of the three frees the
/// slot (within the operation's post, a finish() with success leaves that to the post), so no pointer to the operation
/// may be used afterwards; an OpId can, by find_op(). Ends of operations reach the core when the outbox is delivered,
/// without the lock.
struct ModuleState {
  /// The operation of a post, filled in and linked to its peer.
  Op& begin_op(const Post& post, PeerRecord& peer, bool receive, bool unexpected);
  /// Frees the operation. The caller has reported its end.
  void release(Op& op);
  /// Reports the operation's end and frees it.
  void completed(Op& op, Errc status, std::uint64_t actual_size);
  /// As completed(). Within the operation's post, success is not reported to the core: the post returns it.
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
  /// How long this side waits for the hello of a connection that it has accepted.
  Duration hello_timeout() const;
  void lose_later(const PeerRecord& peer, Errc status) { lost.push_back(Loss{peer.id, status}); }

  const NetworkOptions* options = nullptr;
  Limits limits;  // what this side allows its peers
  SlotTable<Op> ops;
  Outbox<PeerRecord> outbox;
  std::vector<Loss> lost;
  Counters counters;
};

}  // namespace spate::bmi::protocol
