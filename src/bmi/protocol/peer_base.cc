// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/peer_base.h"

#include <utility>

namespace spate::bmi::protocol {

PeerBase::PeerBase(ModuleState& module, PeerId peer_id, std::uint64_t seed)
    : PeerRecord(peer_id), module_(module), sender_(module, *this, *this), receiver_(module, *this, *this, seed) {}

Result<PostResult> PeerBase::post(const Post& post, bool receive, bool unexpected) {
  if (state == PeerPhase::kGone || !usable_for(post)) return Errc::kConnectionLost;
  Op& op = module_.begin_op(post, *this, receive, unexpected);
  PostResult result;
  result.done = receive ? post_recv(op) : post_send(op);
  if (!result.done) return result;
  result.actual_size = receive ? op.arriving : op.size;
  module_.release(op);
  return result;
}

bool PeerBase::post_send(Op& op) {
  const std::size_t c = index_of(op.message_class);
  op.in_post = true;
  op.done_in_post = false;
  if (open_[c]) {
    sender_.begin(op);
    flush_posted(op.message_class);
  } else {
    op.state = OpState::kWaitLink;
    waiting_[c].push_back(op);
    want(op.message_class);
  }
  op.in_post = false;
  return op.done_in_post;
}

bool PeerBase::post_recv(Op& op) {
  op.in_post = true;
  op.done_in_post = false;
  receiver_.post(op);
  const bool posted = op.state == OpState::kPosted;
  if (posted && !open_[index_of(op.message_class)]) want(op.message_class);
  op.in_post = false;
  if (!posted && state == PeerPhase::kUp) flush_all();
  return op.done_in_post;
}

void PeerBase::cancel(Op& op) {
  if (op.state == OpState::kHeld) return grace(op);
  if (op.state == OpState::kWaitLink) {
    waiting_[index_of(op.message_class)].remove(op);
    module_.finish(op, Errc::kCancelled, 0);
  } else if (op.receive) {
    receiver_.cancel(op);
  } else {
    sender_.cancel(op);
  }
  if (state == PeerPhase::kUp) flush_all();
}

bool PeerBase::consumed(std::uint64_t charge) {
  receiver_.consumed(charge);
  if (state != PeerPhase::kUp) return false;
  receiver_.give_back(MessageClass::kControl, charge);
  return true;
}

void PeerBase::up(const Limits& limits) {
  state = PeerPhase::kUp;
  ++connections;
  failure.clear();
  sender_.open(limits);
  receiver_.open();
}

void PeerBase::opened(MessageClass c) {
  open_[index_of(c)] = true;
  NodeList waiting = std::exchange(waiting_[index_of(c)], NodeList());
  while (Node* node = waiting.pop_front()) sender_.begin(op_of(*node));
}

void PeerBase::reset(Errc status) {
  waiting_ = {};
  open_ = {};
  sender_.reset();
  receiver_.reset();
  for (Op* op = first_op(); op != nullptr;) {
    Op* const next = op->next_of_peer;
    if (op->state != OpState::kHeld || op->uses == 0) module_.completed(*op, status, 0);
    op = next;
  }
}

bool PeerBase::control(const Header& header) {
  switch (header.type) {
    case FrameType::kClear: return sender_.on_clear(header);
    case FrameType::kTaken: return sender_.on_taken(header);
    case FrameType::kWithdrawn: return sender_.on_withdrawn(header);
    case FrameType::kNoData: return receiver_.on_no_data(header);
    case FrameType::kWithdraw: receiver_.on_withdraw(header); return true;
    default: return false;
  }
}

}  // namespace spate::bmi::protocol
