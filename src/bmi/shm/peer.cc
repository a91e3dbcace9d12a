// SPDX-License-Identifier: Apache-2.0
// A peer's life, turns and cancel. What goes out: peer_send.cc; what comes in: peer_receive.cc.
#include "bmi/shm/peer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace spate::bmi::shm {
Peer::Peer(PeerHost& host, PeerId peer_id, std::uint64_t seed)
    : id(peer_id), host_(host), seed_(seed), classes_{ClassState(seed), ClassState(seed)} {}

Peer::~Peer() {
  for (ClassState& c : classes_) {
    while (Node* node = c.arrived.take_any()) std::unique_ptr<Arrived>(static_cast<Arrived*>(node)).reset();
  }
}

void Peer::link_op(ShmOp& op) {
  op.previous_of_peer = last_op_;
  op.next_of_peer = nullptr;
  (last_op_ != nullptr ? last_op_->next_of_peer : first_op_) = &op;
  last_op_ = &op;
}

void Peer::unlink_op(ShmOp& op) {
  (op.previous_of_peer != nullptr ? op.previous_of_peer->next_of_peer : first_op_) = op.next_of_peer;
  (op.next_of_peer != nullptr ? op.next_of_peer->previous_of_peer : last_op_) = op.previous_of_peer;
}

void Peer::finish(ShmOp& op, Errc status, std::uint64_t actual_size) {
  if (op.in_post && status == Errc::kOk) {
    op.done_in_post = true;
  } else {
    host_.completed(op, status, actual_size);
  }
}

void Peer::opened(Link& new_link, const Limits& limits) {
  link = &new_link;
  link->peer = this;
  state = Standing::kUp;
  ++connections;
  failure.clear();
  remote_ = limits;
  frames_announced_ = 0;
  returned_any_ = false;
  NodeList waiting = std::exchange(waiting_, NodeList());
  while (Node* node = waiting.pop_front()) begin_send(op_of(*node));
  flush_both();
}

void Peer::widen() {
  if (!link->wants_full_lanes()) return;
  const Result<UniqueFd> memory = link->make_full_lanes();
  // Without memory, descriptors or room for the note the link stays as it is, which is slower.
  if (!memory || link->send_note(Note{Note::Kind::kLanes, 0, 0}, memory->get()) != 0) return;
  FrameHeader header;
  header.type = FrameType::kWiden;
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    header.message_class = c;
    push(header, nullptr);
  }
  flush_both();
}

void Peer::widened(MessageClass c) {
  link->widen_out(c);
  frames_announced_ = kUnknown;  // the count of frames begins anew
}

Limits Peer::grant_limits() {
  for (ClassState& c : classes_) c.peer_charged = c.peer_returned = 0;
  state_of(MessageClass::kControl).peer_charged = undelivered_;
  Limits limits = host_.local_limits();
  limits.window -= std::min(limits.window, undelivered_);
  return limits;
}

void Peer::reset(Errc status) {
  link = nullptr;
  waiting_ = unexpected_waiting_ = withdrawing_ = pulls_ = NodeList();
  for (ClassState& c : classes_) {
    while (Node* node = c.arrived.take_any()) std::unique_ptr<Arrived>(static_cast<Arrived*>(node)).reset();
    c = ClassState(seed_);
  }
  while (first_op_ != nullptr) host_.completed(*first_op_, status, 0);
}

bool Peer::turn(MessageClass c, int frames) {
  // What one class of one peer may do in a turn. Bulk keeps control waiting for as long as it takes to copy so much.
  constexpr std::uint64_t kShare = 128 * 1024;
  LaneReader& lane = link->in(c);
  std::uint64_t bytes = 0;
  bool did = false;
  Frame frame;
  for (int i = 0; i < frames && bytes < kShare; ++i) {
    const LaneReader::Look look = lane.look(frame);
    if (look == LaneReader::Look::kNothing) break;
    did = true;
    const bool widens = look == LaneReader::Look::kFrame && frame.header.type == FrameType::kWiden;
    if (look == LaneReader::Look::kInvalid || !(widens ? on_widen(c, frame) : on_frame(c, frame))) {
      host_.lose_later(*this, Errc::kProtocol);
      return true;
    }
    if (widens) continue;  // `lane` is another one, where this frame is not
    lane.take(frame);
    bytes += frame.chunk;
  }
  return flush(c, kShare) || did;
}

bool Peer::turn_pulls() {
  constexpr std::uint64_t kShare = 256 * 1024;
  std::uint64_t budget = kShare;
  if (pulls_.empty()) return false;
  while (!pulls_.empty() && budget > 0) {
    ShmOp& op = op_of(*pulls_.front());
    while (op.left > 0 && budget > 0) {
      const std::uint64_t size = std::min({budget, op.left, op.source_cursor.left_in_segment()});
      op.cursor.copy_in(op.source_cursor.segment().memory + op.source_cursor.offset(), size);
      op.source_cursor.advance(size);
      op.left -= size;
      budget -= size;
    }
    if (op.left == 0) pulled(op);
  }
  return true;
}

void Peer::announce_progress() {
  std::uint32_t bits = 0;
  std::uint64_t frames = 0;
  bool ordered = false;
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    frames += link->out(c).frames();
    if (!link->in(c).publish_taken()) continue;
    ordered = true;
    if (link->in(c).worth_a_wake()) bits |= kWakeRoom;
  }
  if (std::exchange(returned_any_, false)) {
    // Before the look at what the other side waits for; publish_taken() has seen to that.
    if (!ordered) std::atomic_thread_fence(std::memory_order_seq_cst);
    bits |= kWakeCredit;
  }
  if (std::exchange(frames_announced_, frames) != frames) bits |= kWakeFrames;
  if (bits != 0) link->wake(bits);
}

bool Peer::quiet() {
  if (!pulls_.empty()) return false;
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    if (link->in(c).ready()) return false;
    if (state_of(c).queue.empty()) continue;
    link->wait_for(kWakeRoom);
    LaneWriter& lane = link->out(c);
    if (lane.has_room(lane.max_chunk()) || lane.broken()) return false;
  }
  if (unexpected_waiting_.empty()) return true;
  link->wait_for(kWakeCredit);
  const MessageClass c = MessageClass::kControl;
  return credit(state_of(c), c) < cost_of(op_of(*unexpected_waiting_.front()).size);
}

void Peer::cancel(ShmOp& op) {
  ClassState& c = state_of(op.message_class);
  switch (op.state) {
    case OpState::kWaitLink: waiting_.remove(op); break;
    case OpState::kWaitCredit: unexpected_waiting_.remove(op); break;
    case OpState::kWaitTurn: c.sends_waiting.remove(op); break;
    case OpState::kSending: return cancel_sending(op);
    case OpState::kAnnounced: return cancel_announced(op);
    case OpState::kWithdrawing: return;  // it was cancelled before
    case OpState::kPosted: c.posted.remove(op); break;
    case OpState::kAwaitData: break;  // the data will find no receive and be dropped
    case OpState::kFilling: c.incoming.op = nullptr; break;
    case OpState::kPulling:
      pulls_.remove(op);
      answer(FrameType::kTaken, op.message_class, op.remote_id);
      break;
  }
  finish(op, Errc::kCancelled, 0);
  if (link != nullptr && state == Standing::kUp) flush_both();
}

void Peer::cancel_sending(ShmOp& op) {
  FrameHeader no_data;
  no_data.type = FrameType::kNoData;
  no_data.message_class = op.message_class;
  no_data.id = op.remote_id;
  const bool is_data = op.remote_id != 0;
  ClassState& c = state_of(op.message_class);
  // The charge stays once a part has left: the receiver returns it.
  if (c.queue.withdraw(op, is_data ? &no_data : nullptr)) c.charged -= op.charged;
  finish(op, Errc::kCancelled, 0);
  flush_both();
}

void Peer::cancel_announced(ShmOp& op) {
  ClassState& c = state_of(op.message_class);
  FrameHeader header;
  header.type = FrameType::kWithdraw;
  header.message_class = op.message_class;
  header.flags = op.located ? kFlagLocated : 0;
  header.tag = op.tag;
  header.id = op.id.value;
  push(header, nullptr);
  if (op.located) {
    op.state = OpState::kWithdrawing;
    withdrawing_.push_back(op);
    host_.begin_grace(*this, op);
  } else {
    --c.announced;
    ++c.withdrawn;
    finish(op, Errc::kCancelled, 0);
    run_waiting();
  }
  flush_both();
}

void Peer::consumed(std::uint64_t charge) {
  undelivered_ -= std::min(undelivered_, charge);
  if (state != Standing::kUp) return;
  give_back(MessageClass::kControl, charge);
  announce_progress();
}

}  // namespace spate::bmi::shm
