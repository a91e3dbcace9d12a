// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/module_state.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace spate::bmi::protocol {

Op& ModuleState::begin_op(const Post& post, PeerRecord& peer, bool receive, bool unexpected) {
  Op& op = ops.at(op_slot(post.op));
  SPATE_CHECK(!op.id);
  op.id = post.op;
  op.peer = &peer;
  op.tag = post.tag.value;
  op.message_class = post.message_class;
  op.receive = receive;
  op.unexpected = unexpected;
  op.receiver_ready = post.receiver_ready;
  op.located = false;
  op.without_sendfile = false;
  op.past_end = false;
  op.uses = 0;
  op.size = post.size;
  op.arriving = 0;
  op.charged = 0;
  op.remote_id = 0;
  op.segments.assign(post.segments);
  op.cursor = SegmentCursor(op.segments.view());
  peer.link_op(op);
  return op;
}

void ModuleState::release(Op& op) {
  for (PinCache::Region* region : op.pins) op.pin_cache->release(*region);
  op.pins.clear();
  op.peer->unlink_op(op);
  op.id = OpId();
  op.segments.release();
  op.source.clear();
}

void ModuleState::completed(Op& op, Errc status, std::uint64_t actual_size) {
  outbox.completed(Outcome{op.id, status, actual_size});
  release(op);
}

Duration ModuleState::hello_timeout() const {
  const UnauthenticatedPeerLimits& unauthenticated = options->unauthenticated;
  const std::uint32_t connect_ms = options->connect_timeout_ms;
  return std::chrono::milliseconds(unauthenticated.apply() ? std::min(connect_ms, unauthenticated.deadline_ms)
                                                           : connect_ms);
}

}  // namespace spate::bmi::protocol
