// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/peer_record.h"

namespace spate::bmi::protocol {

void PeerRecord::link_op(Op& op) {
  op.previous_of_peer = last_op_;
  op.next_of_peer = nullptr;
  (last_op_ != nullptr ? last_op_->next_of_peer : first_op_) = &op;
  last_op_ = &op;
}

void PeerRecord::unlink_op(Op& op) {
  (op.previous_of_peer != nullptr ? op.previous_of_peer->next_of_peer : first_op_) = op.next_of_peer;
  (op.next_of_peer != nullptr ? op.next_of_peer->previous_of_peer : last_op_) = op.previous_of_peer;
}

PeerState PeerRecord::describe() const {
  PeerState all;
  all.connected = state == PeerPhase::kUp;
  if (connections > 0 || !outbound || attempted) all.url = url;
  all.connections = connections;
  all.failure = failure;
  return all;
}

}  // namespace spate::bmi::protocol
