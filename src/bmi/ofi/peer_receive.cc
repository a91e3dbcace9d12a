// SPDX-License-Identifier: Apache-2.0
// The receiving side of a peer. Everything that arrives was written by another process: each handler returns false for
// what the protocol does not allow, and the module drops the peer.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "bmi/ofi/peer.h"

namespace spate::bmi::ofi {

bool Peer::on_packet(const Packet& packet) {
  const PacketHeader& header = packet.header;
  const bool bare = packet.payload.empty();
  const bool located = (header.flags & kFlagLocated) != 0;
  if (!take_credit(header)) return false;
  switch (header.type) {
    case PacketType::kReady:
      if (located) return on_announce(packet);
      [[fallthrough]];
    case PacketType::kEager:
    case PacketType::kUnexpected:
    case PacketType::kData:
    case PacketType::kMore: return on_message(packet);
    case PacketType::kAbort: return bare && on_abort(header.message_class);
    case PacketType::kAnnounce: return on_announce(packet);
    case PacketType::kWithdraw: on_withdraw(header); return bare;
    case PacketType::kNoData: return bare && on_no_data(header);
    case PacketType::kClear: return bare && on_clear(header);
    case PacketType::kTaken: return bare && on_taken(header);
    case PacketType::kWithdrawn: return bare && on_withdrawn(header);
    case PacketType::kPing:
      if (state_of(MessageClass::kControl).queue.empty()) answer(PacketType::kPong, MessageClass::kControl, 0);
      return bare;
    case PacketType::kCredit:
    case PacketType::kPong: return bare;
    case PacketType::kBye:
    case PacketType::kHello:
    case PacketType::kWelcome: return false;  // the module's business
  }
  return false;
}

bool Peer::take_credit(const PacketHeader& header) {
  bool any = false;
  for (std::size_t i = 0; i < kClasses; ++i) {
    if (header.credit[i] == 0) continue;
    any = true;
    if (!classes_[i].ours.give(header.credit[i])) return false;
  }
  if (any) run_waiting();
  return true;
}

void Peer::give_back(MessageClass message_class, std::uint64_t cost) {
  ClassState& c = state_of(message_class);
  c.theirs.consume(cost);
  SendQueue& queue = state_of(MessageClass::kControl).queue;
  // Any packet carries it. It gets a packet of its own only if the sender might wait for it.
  if (c.theirs.owed <= kept_back(host_.local_limits(), message_class) || !queue.empty()) return;
  PacketHeader header;
  header.type = PacketType::kCredit;
  queue.push(header, nullptr);
}

// --- messages in packets ---

bool Peer::on_message(const Packet& packet) {
  const MessageClass c = packet.header.message_class;
  Incoming& incoming = state_of(c).incoming;
  const bool begins = packet.header.type != PacketType::kMore;
  if (begins == incoming.active) return false;
  if (begins) {
    if (packet.payload.size() > packet.header.length || !on_begin(packet.header)) return false;
  } else if (packet.payload.empty() || packet.payload.size() > incoming.left) {
    return false;
  }
  take_payload(c, packet.payload);
  if (incoming.left == 0) on_whole(c);
  return true;
}

bool Peer::on_begin(const PacketHeader& header) {
  const MessageClass message_class = header.message_class;
  ClassState& c = state_of(message_class);
  Incoming& incoming = c.incoming;
  const bool unexpected = header.type == PacketType::kUnexpected;
  if (unexpected && (message_class != MessageClass::kControl || header.length > host_.local_limits().max_unexpected)) {
    return false;
  }
  incoming.active = true;
  incoming.header = header;
  incoming.left = header.length;
  incoming.op = nullptr;
  if (header.type == PacketType::kData) return on_data(header);
  const bool charged = header.type != PacketType::kReady;
  std::uint64_t window = host_.local_limits().window;
  if (stranger) window = std::min(window, host_.options().strangers.buffered_bytes);
  if (charged && !c.theirs.charge(cost_of(header.length), window)) return false;
  if (!unexpected) {
    if (Node* node = c.posted.take_front(header.tag)) {
      receive_into(incoming, op_of(*node));
      return true;
    }
    if (!charged) {
      ++host_.counters().dropped_messages;
      return true;
    }
  }
  incoming.arrived = std::make_unique<Arrived>();
  incoming.arrived->tag = header.tag;
  incoming.arrived->length = header.length;
  incoming.arrived->payload = Buffer(header.length);  // within the window: checked above
  return true;
}

void Peer::receive_into(Incoming& incoming, OfiOp& op) {
  if (incoming.header.length > op.size) return finish(op, Errc::kMessageTooBig, 0);
  op.state = OpState::kFilling;
  op.arriving = incoming.header.length;
  incoming.op = &op;
}

bool Peer::on_data(const PacketHeader& header) {
  OfiOp* op = host_.find_op(OpId(header.id));
  if (op == nullptr || op->peer != this || !op->receive) {
    ++host_.counters().dropped_messages;  // its receive was cancelled
    return true;
  }
  const bool fits =
      op->state == OpState::kAwaitData && op->message_class == header.message_class && op->arriving == header.length;
  if (fits) receive_into(state_of(header.message_class).incoming, *op);
  return fits;
}

void Peer::take_payload(MessageClass c, ByteView payload) {
  Incoming& incoming = state_of(c).incoming;
  if (payload.empty()) return;
  if (incoming.op != nullptr) {
    incoming.op->cursor.copy_in(payload.data(), payload.size());
  } else if (incoming.arrived != nullptr) {
    std::memcpy(incoming.arrived->payload.data() + (incoming.header.length - incoming.left), payload.data(),
                payload.size());
  }
  incoming.left -= payload.size();
  host_.counters().packet_bytes += payload.size();
}

void Peer::on_whole(MessageClass message_class) {
  ClassState& c = state_of(message_class);
  Incoming& incoming = c.incoming;
  incoming.active = false;
  const PacketHeader& header = incoming.header;
  std::unique_ptr<Arrived> arrived = std::move(incoming.arrived);
  if (header.type == PacketType::kUnexpected) {
    undelivered_ += cost_of(header.length);
    return host_.deliver(*this, Tag(arrived->tag), std::move(arrived->payload));
  }
  OfiOp* op = std::exchange(incoming.op, nullptr);
  if (arrived == nullptr && header.type == PacketType::kEager) give_back(message_class, cost_of(header.length));
  if (op != nullptr) return finish(*op, Errc::kOk, op->arriving);
  if (arrived == nullptr) return;
  if (Node* node = c.posted.take_front(arrived->tag)) {  // posted while the payload was on its way
    take_arrived(op_of(*node), std::move(arrived));
  } else {
    c.arrived.push_back(*arrived.release());
  }
}

bool Peer::on_abort(MessageClass message_class) {
  Incoming& incoming = state_of(message_class).incoming;
  if (!incoming.active) return false;
  incoming.active = false;
  ++host_.counters().aborted;
  incoming.arrived.reset();
  const PacketType type = incoming.header.type;
  const bool charged = type == PacketType::kEager || type == PacketType::kUnexpected;
  if (charged) give_back(message_class, cost_of(incoming.header.length));
  if (OfiOp* op = std::exchange(incoming.op, nullptr)) put_back(*op);
  return true;
}

void Peer::put_back(OfiOp& op) {
  // It waits for the next message of its tag again, before the receives that were posted after it.
  ClassState& c = state_of(op.message_class);
  op.cursor = SegmentCursor(op.segments.view());
  if (c.arrived.front(op.tag) != nullptr) return match_or_post(op);
  op.state = OpState::kPosted;
  c.posted.push_front(op);
}

// --- receives ---

bool Peer::post_recv(OfiOp& op) {
  op.in_post = true;
  op.done_in_post = false;
  op.state = OpState::kFilling;
  match_or_post(op);
  if (op.state == OpState::kPosted && state == Standing::kIdle) host_.connect(*this);
  op.in_post = false;
  if (op.state != OpState::kPosted && state == Standing::kUp) turn();
  return op.done_in_post;
}

void Peer::match_or_post(OfiOp& op) {
  ClassState& c = state_of(op.message_class);
  Node* node = c.arrived.take_front(op.tag);
  if (node == nullptr) {
    op.state = OpState::kPosted;
    c.posted.push_back(op);
    return;
  }
  std::unique_ptr<Arrived> arrived(static_cast<Arrived*>(node));
  if (arrived->announced) --c.announcements;
  take_arrived(op, std::move(arrived));
}

void Peer::take_arrived(OfiOp& op, std::unique_ptr<Arrived> arrived) {
  if (arrived->announced) return clear(op, *arrived);
  give_back(op.message_class, cost_of(arrived->length));
  op.arriving = arrived->length;
  if (arrived->length > op.size) return finish(op, Errc::kMessageTooBig, 0);
  op.cursor.copy_in(arrived->payload.data(), arrived->length);
  finish(op, Errc::kOk, arrived->length);
}

// --- announced messages ---

bool Peer::on_announce(const Packet& packet) {
  const PacketHeader& header = packet.header;
  ClassState& c = state_of(header.message_class);
  Arrived announced;
  announced.tag = header.tag;
  announced.length = header.length;
  announced.remote_id = header.id;
  announced.announced = true;
  const bool located = (header.flags & kFlagLocated) != 0;
  if (!located && !packet.payload.empty()) return false;
  if (located) {
    std::optional<std::vector<Extent>> extents = decode_extents(packet.payload, header.length);
    if (!extents) return false;
    announced.source = std::move(*extents);
  }
  if (Node* node = c.posted.take_front(header.tag)) {
    clear(op_of(*node), announced);
    return true;
  }
  if (header.type == PacketType::kReady) {
    ++host_.counters().dropped_messages;
    answer(PacketType::kTaken, header.message_class, header.id);
    return true;
  }
  const std::uint32_t most = host_.local_limits().max_announced;
  if (c.announcements >= (stranger ? std::min(most, host_.options().strangers.announced) : most)) return false;
  ++c.announcements;
  c.arrived.push_back(*std::make_unique<Arrived>(std::move(announced)).release());
  return true;
}

void Peer::clear(OfiOp& op, const Arrived& arrived) {
  const bool fits = arrived.length <= op.size;
  if (fits && !arrived.source.empty()) return pull(op, arrived);
  PacketHeader header;
  header.type = PacketType::kClear;
  header.message_class = op.message_class;
  header.flags = fits ? 0 : kFlagTooBig;
  header.tag = op.id.value;
  header.id = arrived.remote_id;
  state_of(MessageClass::kControl).queue.push(header, nullptr);
  if (!fits) return finish(op, Errc::kMessageTooBig, 0);
  op.state = OpState::kAwaitData;
  op.arriving = arrived.length;
}

bool Peer::on_clear(const PacketHeader& header) {
  ClassState& c = state_of(header.message_class);
  OfiOp* op = host_.find_op(OpId(header.id));
  const bool ours = op != nullptr && op->peer == this && op->message_class == header.message_class;
  const bool live = ours && op->state == OpState::kAnnounced;
  const bool withdrawing = ours && op->state == OpState::kWithdrawing;
  if (live || withdrawing) --c.announced;
  if (withdrawing) {
    withdrawing_.remove(*op);
    finish(*op, Errc::kCancelled, 0);
  } else if (!live) {
    if (c.withdrawn == 0) return false;
    --c.withdrawn;
  }
  const bool too_big = (header.flags & kFlagTooBig) != 0;
  if (live && too_big) {
    finish(*op, Errc::kMessageTooBig, 0);
  } else if (live) {
    op->remote_id = header.tag;
    transmit(*op, PacketType::kData);
  } else if (!too_big) {
    answer(PacketType::kNoData, header.message_class, header.tag);
  }
  run_waiting();
  return true;
}

bool Peer::on_no_data(const PacketHeader& header) {
  OfiOp* op = host_.find_op(OpId(header.id));
  if (op == nullptr || op->peer != this || !op->receive) return true;  // cancelled on both sides
  if (op->state != OpState::kAwaitData) return false;
  put_back(*op);
  return true;
}

void Peer::on_withdraw(const PacketHeader& header) {
  ClassState& c = state_of(header.message_class);
  for (Node* node = c.arrived.front(header.tag); node != nullptr; node = node->next) {
    auto* arrived = static_cast<Arrived*>(node);
    if (!arrived->announced || arrived->remote_id != header.id) continue;
    c.arrived.remove(*node);
    std::unique_ptr<Arrived>(arrived).reset();
    --c.announcements;
    if ((header.flags & kFlagLocated) != 0) answer(PacketType::kWithdrawn, header.message_class, header.id);
    return;
  }
}

bool Peer::on_taken(const PacketHeader& header) {
  OfiOp* op = host_.find_op(OpId(header.id));
  const bool ours = op != nullptr && op->peer == this && op->message_class == header.message_class && op->located;
  if (!ours || (op->state != OpState::kAnnounced && op->state != OpState::kWithdrawing)) return false;
  if (op->state == OpState::kWithdrawing) withdrawing_.remove(*op);
  --state_of(op->message_class).announced;
  finish(*op, Errc::kOk, op->size);
  run_waiting();
  return true;
}

bool Peer::on_withdrawn(const PacketHeader& header) {
  OfiOp* op = host_.find_op(OpId(header.id));
  const bool ours = op != nullptr && op->peer == this && op->message_class == header.message_class;
  if (!ours || op->state != OpState::kWithdrawing) return false;
  withdrawing_.remove(*op);
  --state_of(op->message_class).announced;
  finish(*op, Errc::kCancelled, 0);
  run_waiting();
  return true;
}

}  // namespace spate::bmi::ofi
