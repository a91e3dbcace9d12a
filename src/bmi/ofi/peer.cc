// SPDX-License-Identifier: Apache-2.0
// A peer's life, turns and cancel. What goes out: peer_send.cc; what comes in: peer_receive.cc; RMA: peer_read.cc.
#include "bmi/ofi/peer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace spate::bmi::ofi {

Peer::Peer(PeerHost& host, PeerId peer_id, std::uint64_t seed)
    : id(peer_id), host_(host), seed_(seed), classes_{ClassState(seed), ClassState(seed)} {}

Peer::~Peer() {
  for (ClassState& c : classes_) {
    while (Node* node = c.arrived.take_any()) std::unique_ptr<Arrived>(static_cast<Arrived*>(node)).reset();
  }
}

void Peer::link_op(OfiOp& op) {
  op.previous_of_peer = last_op_;
  op.next_of_peer = nullptr;
  (last_op_ != nullptr ? last_op_->next_of_peer : first_op_) = &op;
  last_op_ = &op;
}

void Peer::unlink_op(OfiOp& op) {
  (op.previous_of_peer != nullptr ? op.previous_of_peer->next_of_peer : first_op_) = op.next_of_peer;
  (op.next_of_peer != nullptr ? op.next_of_peer->previous_of_peer : last_op_) = op.previous_of_peer;
}

void Peer::finish(OfiOp& op, Errc status, std::uint64_t actual_size) {
  if (op.in_post && status == Errc::kOk) {
    op.done_in_post = true;
  } else {
    host_.completed(op, status, actual_size);
  }
}

void Peer::opened(const Limits& limits) {
  state = Standing::kUp;
  ++connections;
  ++host_.counters().connections;
  failure.clear();
  remote_ = limits;
  for (ClassState& c : classes_) c.ours.available = limits.window;
  NodeList waiting = std::exchange(waiting_, NodeList());
  while (Node* node = waiting.pop_front()) begin_send(op_of(*node));
  flush();
}

Limits Peer::grant_limits() {
  for (ClassState& c : classes_) c.theirs = protocol::ReceiveCredit();
  state_of(MessageClass::kControl).theirs.held = undelivered_;
  Limits limits = host_.local_limits();
  limits.max_packet = static_cast<std::uint32_t>(wire->packet_bytes());
  limits.window -= std::min(limits.window, undelivered_);
  return limits;
}

void Peer::reset(Errc status) {
  if (slot_ != nullptr) wire->give_slot(*std::exchange(slot_, nullptr));
  if (route != nullptr) wire->close_route(*std::exchange(route, nullptr));
  waiting_ = unexpected_waiting_ = withdrawing_ = pulls_ = NodeList();
  for (ClassState& c : classes_) {
    while (Node* node = c.arrived.take_any()) std::unique_ptr<Arrived>(static_cast<Arrived*>(node)).reset();
    c = ClassState(seed_);
  }
  for (OfiOp* op = first_op_; op != nullptr;) {
    OfiOp* const next = op->next_of_peer;
    // A peer with the key must not read what the memory holds after this operation.
    if (op->located) {
      for (PinCache::Region* region : op->pins) wire->pins().forget(*region);
    }
    if (op->reads == 0) {
      host_.completed(*op, status, 0);
    } else if (op->state != OpState::kEnding) {
      end_later(*op, status);
    } else {
      op->remote_id = 0;  // there is no peer to answer any more
    }
    op = next;
  }
}

bool Peer::has_work() const {
  if (state != Standing::kUp) return false;
  const bool queued = std::ranges::any_of(classes_, [](const ClassState& c) { return !c.queue.empty(); });
  return queued || route->refused != nullptr || (!pulls_.empty() && reads_ == 0);
}

bool Peer::turn() {
  if (state != Standing::kUp) return false;
  const bool reads = begin_reads();
  return flush() || reads;
}

void Peer::say(PacketType type) {
  if (route == nullptr) return;
  PacketHeader header;
  header.type = type;
  writing_ = MessageClass::kControl;
  if (!room().empty()) publish(header, 0);
}

void Peer::say_bye() {
  if (route == nullptr || route->failed) return;
  Slot* slot = std::exchange(route->refused, nullptr);
  if (slot == nullptr) slot = std::exchange(slot_, nullptr);
  if (slot == nullptr) slot = wire->take_slot();
  if (slot == nullptr) return;
  PacketHeader header;
  header.type = PacketType::kBye;
  header.session = remote_session;
  encode(header, 0, Wire::data_of(*slot));
  ++host_.counters().packets_sent;
  (void)wire->send(*route, *slot, kHeaderSize);
}

void Peer::cancel(OfiOp& op) {
  ClassState& c = state_of(op.message_class);
  switch (op.state) {
    case OpState::kWaitLink: waiting_.remove(op); break;
    case OpState::kWaitCredit: unexpected_waiting_.remove(op); break;
    case OpState::kWaitTurn: c.sends_waiting.remove(op); break;
    case OpState::kSending: return cancel_sending(op);
    case OpState::kAnnounced: return cancel_announced(op);
    case OpState::kWithdrawing:
    case OpState::kEnding: return;  // it was cancelled before
    case OpState::kPosted: c.posted.remove(op); break;
    case OpState::kAwaitData: break;  // the data will find no receive and be dropped
    case OpState::kFilling: c.incoming.op = nullptr; break;
    case OpState::kPulling: return cancel_pulling(op);
  }
  finish(op, Errc::kCancelled, 0);
  if (state == Standing::kUp) flush();
}

void Peer::cancel_sending(OfiOp& op) {
  PacketHeader no_data;
  no_data.type = PacketType::kNoData;
  no_data.message_class = op.message_class;
  no_data.id = op.remote_id;
  const bool is_data = op.remote_id != 0;
  ClassState& c = state_of(op.message_class);
  // The charge stays once a part has left: the receiver returns it.
  if (c.queue.withdraw(op, is_data ? &no_data : nullptr)) c.ours.available += op.charged;
  finish(op, Errc::kCancelled, 0);
  flush();
}

void Peer::cancel_announced(OfiOp& op) {
  ClassState& c = state_of(op.message_class);
  PacketHeader header;
  header.type = PacketType::kWithdraw;
  header.message_class = op.message_class;
  header.flags = op.located ? kFlagLocated : 0;
  header.tag = op.tag;
  header.id = op.id.value;
  push(header, nullptr);
  if (op.located) {
    op.state = OpState::kWithdrawing;
    op.deadline = host_.begin_grace();
    withdrawing_.push_back(op);
  } else {
    --c.announced;
    ++c.withdrawn;
    finish(op, Errc::kCancelled, 0);
    run_waiting();
  }
  flush();
}

void Peer::consumed(std::uint64_t charge) {
  undelivered_ -= std::min(undelivered_, charge);
  if (state != Standing::kUp) return;
  give_back(MessageClass::kControl, charge);
  flush();
}

MonoTime Peer::deadline_of(const NodeList& list) {
  return list.empty() ? MonoTime::never() : op_of(*list.front()).deadline;
}

}  // namespace spate::bmi::ofi
