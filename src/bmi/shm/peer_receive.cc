// SPDX-License-Identifier: Apache-2.0
// The receiving side of a peer. Everything that arrives was written by another process: each handler returns false for
// what the protocol does not allow, and the module drops the peer.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/codec.h"
#include "bmi/shm/peer.h"

namespace spate::bmi::shm {

bool Peer::on_frame(MessageClass c, const Frame& frame) {
  const FrameHeader& header = frame.header;
  const bool class_fits = header.message_class == c;
  const bool on_control = c == MessageClass::kControl;
  const bool located = (header.flags & kFlagLocated) != 0;
  if (header.length > kMaxLength) return false;
  switch (header.type) {
    case FrameType::kReady:
      if (located) return class_fits && on_announce(c, frame);
      [[fallthrough]];
    case FrameType::kEager:
    case FrameType::kUnexpected:
    case FrameType::kData:
    case FrameType::kMore: return class_fits && on_message(c, frame);
    case FrameType::kAbort: return class_fits && frame.chunk == 0 && on_abort(c);
    case FrameType::kAnnounce: return class_fits && on_announce(c, frame);
    case FrameType::kWithdraw: on_withdraw(header); return class_fits && frame.chunk == 0;
    case FrameType::kNoData: return frame.chunk == 0 && on_no_data(header);
    case FrameType::kClear: return on_control && frame.chunk == 0 && on_clear(header);
    case FrameType::kTaken: return on_control && frame.chunk == 0 && on_taken(header);
    case FrameType::kWithdrawn: return on_control && frame.chunk == 0 && on_withdrawn(header);
    case FrameType::kWiden: return false;  // see turn()
  }
  return false;
}

/// The acceptor begins, when it has admitted its peer, and the connector follows.
bool Peer::on_widen(MessageClass c, const Frame& frame) {
  const bool connector = link->side == Side::kConnector;
  const bool fits = frame.header.message_class == c && frame.chunk == 0 && !state_of(c).incoming.active;
  if (!fits || !link->narrow_in(c) || (!connector && link->narrow_out(c))) return false;
  if (connector && !link->has_full_lanes()) (void)host_.read_notes(*link);  // they were sent before the frame
  if (!link->has_full_lanes()) return false;
  link->widen_in(c);
  if (!connector) return true;
  FrameHeader header;
  header.type = FrameType::kWiden;
  header.message_class = c;
  push(header, nullptr);
  return true;
}

bool Peer::charge_peer(ClassState& c, std::uint64_t cost) {
  std::uint64_t window = host_.local_limits().window;
  if (stranger) window = std::min(window, host_.options().strangers.buffered_bytes);
  const std::uint64_t outstanding = c.peer_charged - c.peer_returned;
  if (cost > window || outstanding > window - cost) return false;
  c.peer_charged += cost;
  return true;
}

void Peer::give_back(MessageClass message_class, std::uint64_t cost) {
  ClassState& c = state_of(message_class);
  c.peer_returned += cost;
  link->mine().returned[index_of(message_class)].store(c.peer_returned, std::memory_order_release);
  returned_any_ = true;  // announce_progress() wakes the side that waits for it
}

// --- messages through the lane ---

bool Peer::on_message(MessageClass c, const Frame& frame) {
  Incoming& incoming = state_of(c).incoming;
  const bool begins = frame.header.type != FrameType::kMore;
  if (begins == incoming.active) return false;
  if (begins) {
    if (frame.chunk > frame.header.length || !on_begin(c, frame.header)) return false;
  } else if (frame.chunk == 0 || frame.chunk > incoming.left) {
    return false;
  }
  take_payload(c, frame);
  if (incoming.left == 0) on_whole(c);
  return true;
}

bool Peer::on_begin(MessageClass message_class, const FrameHeader& header) {
  ClassState& c = state_of(message_class);
  Incoming& incoming = c.incoming;
  const bool unexpected = header.type == FrameType::kUnexpected;
  if (unexpected && (message_class != MessageClass::kControl || header.length > host_.local_limits().max_unexpected)) {
    return false;
  }
  incoming.active = true;
  incoming.header = header;
  incoming.left = header.length;
  incoming.op = nullptr;
  if (header.type == FrameType::kData) return on_data(message_class, header);
  const bool charged = header.type != FrameType::kReady;
  if (charged && !charge_peer(c, cost_of(header.length))) return false;
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

void Peer::receive_into(Incoming& incoming, ShmOp& op) {
  if (incoming.header.length > op.size) return finish(op, Errc::kMessageTooBig, 0);
  op.state = OpState::kFilling;
  op.arriving = incoming.header.length;
  incoming.op = &op;
}

bool Peer::on_data(MessageClass c, const FrameHeader& header) {
  ShmOp* op = host_.find_op(OpId(header.id));
  if (op == nullptr || op->peer != this || !op->receive) {
    ++host_.counters().dropped_messages;  // its receive was cancelled
    return true;
  }
  const bool fits = op->state == OpState::kAwaitData && op->message_class == c && op->arriving == header.length;
  if (fits) receive_into(state_of(c).incoming, *op);
  return fits;
}

void Peer::take_payload(MessageClass c, const Frame& frame) {
  Incoming& incoming = state_of(c).incoming;
  const std::uint64_t done = incoming.header.length - incoming.left;
  const auto copy = [&](ByteView from, std::uint64_t at) {
    if (from.empty()) return;
    if (incoming.op != nullptr) {
      incoming.op->cursor.copy_in(from.data(), from.size());
    } else if (incoming.arrived != nullptr) {
      std::memcpy(incoming.arrived->payload.data() + at, from.data(), from.size());
    }
  };
  if (frame.chunk <= kInlineBytes) {
    copy(std::as_bytes(std::span(frame.small)).first(frame.chunk), done);
  } else {
    const Stretch run = link->in(c).payload(frame.chunk);
    copy(run.first, done);
    copy(run.second, done + run.first.size());
  }
  incoming.left -= frame.chunk;
  host_.counters().lane_bytes += frame.chunk;
}

void Peer::on_whole(MessageClass message_class) {
  ClassState& c = state_of(message_class);
  Incoming& incoming = c.incoming;
  incoming.active = false;
  const FrameHeader& header = incoming.header;
  std::unique_ptr<Arrived> arrived = std::move(incoming.arrived);
  if (header.type == FrameType::kUnexpected) {
    undelivered_ += cost_of(header.length);
    return host_.deliver(*this, Tag(arrived->tag), std::move(arrived->payload));
  }
  ShmOp* op = std::exchange(incoming.op, nullptr);
  if (arrived == nullptr && header.type == FrameType::kEager) give_back(message_class, cost_of(header.length));
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
  const FrameType type = incoming.header.type;
  const bool charged = type == FrameType::kEager || type == FrameType::kUnexpected;
  if (charged) give_back(message_class, cost_of(incoming.header.length));
  if (ShmOp* op = std::exchange(incoming.op, nullptr)) put_back(*op);
  return true;
}

void Peer::put_back(ShmOp& op) {
  // It waits for the next message of its tag again, before the receives that were posted after it.
  ClassState& c = state_of(op.message_class);
  op.cursor = SegmentCursor(op.segments.view());
  if (c.arrived.front(op.tag) != nullptr) return match_or_post(op);
  op.state = OpState::kPosted;
  c.posted.push_front(op);
}

// --- receives ---

bool Peer::post_recv(ShmOp& op) {
  op.in_post = true;
  op.done_in_post = false;
  op.state = OpState::kFilling;
  match_or_post(op);
  if (op.state == OpState::kPosted && state == Standing::kIdle) host_.connect(*this);
  op.in_post = false;
  if (op.state != OpState::kPosted && state == Standing::kUp) flush_both();
  return op.done_in_post;
}

void Peer::match_or_post(ShmOp& op) {
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

void Peer::take_arrived(ShmOp& op, std::unique_ptr<Arrived> arrived) {
  if (arrived->announced) return clear(op, *arrived);
  give_back(op.message_class, cost_of(arrived->length));
  op.arriving = arrived->length;
  if (arrived->length > op.size) return finish(op, Errc::kMessageTooBig, 0);
  op.cursor.copy_in(arrived->payload.data(), arrived->length);
  finish(op, Errc::kOk, arrived->length);
}

// --- announced messages ---

bool Peer::locate(const Frame& frame, Arrived& arrived) {
  if (frame.chunk > kMaxExtents * kExtentSize || frame.chunk % kExtentSize != 0) return false;
  std::array<std::byte, kMaxExtents * kExtentSize> bytes;  // copied once, then parsed
  if (frame.chunk <= kInlineBytes) {
    std::ranges::copy(std::as_bytes(std::span(frame.small)).first(frame.chunk), bytes.begin());
  } else {
    const Stretch run = link->in(frame.header.message_class).payload(frame.chunk);
    std::ranges::copy(run.second, std::ranges::copy(run.first, bytes.begin()).out);
  }
  Decoder in(ByteView(bytes).first(frame.chunk));
  extents_.clear();
  for (std::size_t i = 0; i < frame.chunk / kExtentSize; ++i) {
    Extent extent;
    extent.arena = in.u32();
    (void)in.u32();
    extent.offset = in.u64();
    extent.size = in.u64();
    extents_.push_back(extent);
    // Shown on the socket before the frame was written.
    if (!link->arenas.knows(extent.arena) && !host_.read_notes(*link)) return false;
  }
  const ForeignArenas::Found found = link->arenas.find(extents_, arrived.length, arrived.source);
  arrived.located = found == ForeignArenas::Found::kYes;
  return found != ForeignArenas::Found::kInvalid;
}

bool Peer::on_announce(MessageClass message_class, const Frame& frame) {
  ClassState& c = state_of(message_class);
  const FrameHeader& header = frame.header;
  Arrived announced;
  announced.tag = header.tag;
  announced.length = header.length;
  announced.remote_id = header.id;
  announced.announced = true;
  const bool located = (header.flags & kFlagLocated) != 0;
  if (!located && frame.chunk != 0) return false;
  if (located && !locate(frame, announced)) return false;
  if (Node* node = c.posted.take_front(header.tag)) {
    clear(op_of(*node), announced);
    return true;
  }
  if (header.type == FrameType::kReady) {
    ++host_.counters().dropped_messages;
    answer(FrameType::kTaken, message_class, header.id);
    return true;
  }
  const std::uint32_t most = host_.local_limits().max_announced;
  if (c.announcements >= (stranger ? std::min(most, host_.options().strangers.announced) : most)) return false;
  ++c.announcements;
  c.arrived.push_back(*std::make_unique<Arrived>(std::move(announced)).release());
  return true;
}

void Peer::clear(ShmOp& op, const Arrived& arrived) {
  const bool fits = arrived.length <= op.size;
  if (fits && arrived.located) return pull(op, arrived);
  FrameHeader header;
  header.type = FrameType::kClear;
  header.message_class = op.message_class;
  header.flags = fits ? 0 : kFlagTooBig;
  header.tag = op.id.value;
  header.id = arrived.remote_id;
  state_of(MessageClass::kControl).queue.push(header, nullptr);
  if (!fits) return finish(op, Errc::kMessageTooBig, 0);
  op.state = OpState::kAwaitData;
  op.arriving = arrived.length;
}

void Peer::pull(ShmOp& op, const Arrived& arrived) {
  op.state = OpState::kPulling;
  op.arriving = op.left = arrived.length;
  op.remote_id = arrived.remote_id;
  op.source.assign(arrived.source);
  op.source_cursor = SegmentCursor(op.source.view());
  pulls_.push_back(op);
  host_.keep_turning(*this);
}

void Peer::pulled(ShmOp& op) {
  pulls_.remove(op);
  // A sender that gave up on this side (a long stop, say) says so before it uses its memory again.
  if (!link->still_offered()) {
    host_.lose_later(*this, Errc::kConnectionLost);
    return finish(op, Errc::kConnectionLost, 0);
  }
  host_.counters().located_bytes += op.arriving;
  answer(FrameType::kTaken, op.message_class, op.remote_id);
  finish(op, Errc::kOk, op.arriving);
}

bool Peer::on_clear(const FrameHeader& header) {
  ClassState& c = state_of(header.message_class);
  ShmOp* op = host_.find_op(OpId(header.id));
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
    transmit(*op, FrameType::kData);
  } else if (!too_big) {
    answer(FrameType::kNoData, header.message_class, header.tag);
  }
  run_waiting();
  return true;
}

bool Peer::on_no_data(const FrameHeader& header) {
  ShmOp* op = host_.find_op(OpId(header.id));
  if (op == nullptr || op->peer != this || !op->receive) return true;  // cancelled on both sides
  if (op->state != OpState::kAwaitData) return false;
  put_back(*op);
  return true;
}

void Peer::on_withdraw(const FrameHeader& header) {
  ClassState& c = state_of(header.message_class);
  for (Node* node = c.arrived.front(header.tag); node != nullptr; node = node->next) {
    auto* arrived = static_cast<Arrived*>(node);
    if (!arrived->announced || arrived->remote_id != header.id) continue;
    c.arrived.remove(*node);
    std::unique_ptr<Arrived>(arrived).reset();
    --c.announcements;
    if ((header.flags & kFlagLocated) != 0) answer(FrameType::kWithdrawn, header.message_class, header.id);
    return;
  }
}

bool Peer::on_taken(const FrameHeader& header) {
  ShmOp* op = host_.find_op(OpId(header.id));
  const bool ours = op != nullptr && op->peer == this && op->message_class == header.message_class && op->located;
  if (!ours || (op->state != OpState::kAnnounced && op->state != OpState::kWithdrawing)) return false;
  if (op->state == OpState::kWithdrawing) withdrawing_.remove(*op);
  --state_of(op->message_class).announced;
  finish(*op, Errc::kOk, op->size);
  run_waiting();
  return true;
}

bool Peer::on_withdrawn(const FrameHeader& header) {
  ShmOp* op = host_.find_op(OpId(header.id));
  const bool ours = op != nullptr && op->peer == this && op->message_class == header.message_class;
  if (!ours || op->state != OpState::kWithdrawing) return false;
  withdrawing_.remove(*op);
  --state_of(op->message_class).announced;
  finish(*op, Errc::kCancelled, 0);
  run_waiting();
  return true;
}

}  // namespace spate::bmi::shm
