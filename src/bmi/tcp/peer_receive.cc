// SPDX-License-Identifier: Apache-2.0
// The receiving side of a peer. Everything that arrives was written by another process: each handler returns false for
// what the protocol does not allow, and the module drops the peer.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "bmi/tcp/peer.h"

namespace spate::bmi::tcp {

bool Peer::on_header(Connection& connection, const std::byte* bytes) {
  const std::optional<FrameHeader> decoded = decode_frame(bytes);
  if (!decoded) return false;
  const FrameHeader& header = *decoded;
  if (!check_credit(connection, header)) return false;
  const bool on_control = connection.channel == 0;
  const bool class_fits = (header.message_class == MessageClass::kControl) == on_control;
  switch (header.type) {
    case FrameType::kEager:
    case FrameType::kUnexpected:
    case FrameType::kReady: return class_fits && on_message(connection, header);
    case FrameType::kAnnounce: return class_fits && on_announce(header);
    case FrameType::kData: return class_fits && on_data(connection, header);
    case FrameType::kWithdraw: on_withdraw(header); return class_fits;
    case FrameType::kNoData: return on_no_data(header);
    case FrameType::kClear: return on_control && on_clear(header);
    case FrameType::kCredit: return on_control;
    case FrameType::kOpenBulk:
      if (!on_control || !outbound) return false;
      want_bulk();
      return true;
  }
  return false;
}

bool Peer::check_credit(Connection& connection, const FrameHeader& header) {
  if (header.credit == 0) return true;
  const MessageClass c = header.type == FrameType::kCredit ? header.message_class
                         : connection.channel == 0         ? MessageClass::kControl
                                                           : MessageClass::kBulk;
  if (!state_of(c).ours.give(header.credit)) return false;
  run_waiting(c);
  return true;
}

bool Peer::charge_peer(ClassState& c, std::uint64_t cost) {
  std::uint64_t window = host_.local_limits().window;
  if (stranger) window = std::min(window, host_.options().strangers.buffered_bytes);
  return c.theirs.charge(cost, window);
}

void Peer::give_back(MessageClass message_class, std::uint64_t cost) {
  ClassState& c = state_of(message_class);
  c.theirs.consume(cost);
  if (c.theirs.owed <= kept_back(host_.local_limits(), message_class) || channels[0].connection == nullptr) return;
  FrameHeader header;
  header.type = FrameType::kCredit;
  header.message_class = message_class;
  header.credit = c.theirs.take_owed();
  push(control(), header, nullptr);
}

void Peer::consumed(std::uint64_t charge) {
  undelivered_ -= std::min(undelivered_, charge);
  give_back(MessageClass::kControl, charge);
  if (channels[0].connection != nullptr) host_.flush(control());
}

bool Peer::on_message(Connection& connection, const FrameHeader& header) {
  ClassState& c = state_of(header.message_class);
  const bool charged = header.type != FrameType::kReady;
  if (header.type == FrameType::kUnexpected) {
    if (header.message_class != MessageClass::kControl || header.length > host_.local_limits().max_unexpected)
      return false;
  }
  if (charged && !charge_peer(c, cost_of(header.length))) return false;
  if (header.type != FrameType::kUnexpected) {
    if (Node* node = c.posted.take_front(header.tag)) {
      if (charged) give_back(header.message_class, cost_of(header.length));
      receive_into(connection, header, op_of(*node));
      return true;
    }
    if (!charged) {
      ++host_.counters().dropped_messages;
      connection.expect(header, nullptr, nullptr);
      return true;
    }
  }
  auto arrived = std::make_unique<Arrived>();
  arrived->tag = header.tag;
  arrived->length = header.length;
  arrived->payload = Buffer(header.length);  // within the window: checked above
  connection.expect(header, nullptr, std::move(arrived));
  return true;
}

void Peer::receive_into(Connection& connection, const FrameHeader& header, TcpOp& op) {
  if (header.length > op.size) {
    finish(op, Errc::kMessageTooBig, 0);
    connection.expect(header, nullptr, nullptr);
    return;
  }
  op.state = OpState::kFilling;
  op.arriving = header.length;
  op.connection = &connection;
  connection.expect(header, &op, nullptr);
}

void Peer::on_payload(Connection& connection) {
  Incoming& incoming = connection.incoming();
  if (incoming.op != nullptr || incoming.arrived != nullptr) ++host_.counters().received_messages;
  if (incoming.op != nullptr) {
    TcpOp& op = *std::exchange(incoming.op, nullptr);
    op.connection = nullptr;
    finish(op, Errc::kOk, op.arriving);
    return;
  }
  if (incoming.arrived == nullptr) return;
  std::unique_ptr<Arrived> arrived = std::move(incoming.arrived);
  if (incoming.header.type == FrameType::kUnexpected) {
    undelivered_ += cost_of(arrived->length);
    host_.deliver(*this, Tag(arrived->tag), std::move(arrived->payload));
    return;
  }
  ClassState& c = state_of(incoming.header.message_class);
  if (Node* node = c.posted.take_front(arrived->tag)) {  // posted while the payload was on its way
    take_arrived(op_of(*node), std::move(arrived));
  } else {
    c.arrived.push_back(*arrived.release());
  }
}

bool Peer::post_recv(TcpOp& op) {
  op.in_post = true;
  op.done_in_post = false;
  op.state = OpState::kFilling;
  match_or_post(op);
  if (op.state == OpState::kPosted && channel_of(op).connection == nullptr) want_channel(op);
  op.in_post = false;
  if (!op.done_in_post) flush_all();
  return op.done_in_post;
}

void Peer::match_or_post(TcpOp& op) {
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

void Peer::take_arrived(TcpOp& op, std::unique_ptr<Arrived> arrived) {
  if (arrived->announced) return clear(op, arrived->remote_id, arrived->length);
  give_back(op.message_class, cost_of(arrived->length));
  op.arriving = arrived->length;
  if (arrived->length > op.size) return finish(op, Errc::kMessageTooBig, 0);
  op.cursor.copy_in(arrived->payload.data(), arrived->length);
  finish(op, Errc::kOk, arrived->length);
}

std::uint32_t Peer::most_announced() const {
  const std::uint32_t most = host_.local_limits().max_announced;
  return stranger ? std::min(most, host_.options().strangers.announced) : most;
}

bool Peer::on_announce(const FrameHeader& header) {
  ClassState& c = state_of(header.message_class);
  if (Node* node = c.posted.take_front(header.tag)) {
    clear(op_of(*node), header.id, header.length);
    return true;
  }
  if (c.announcements >= most_announced()) return false;
  ++c.announcements;
  auto arrived = std::make_unique<Arrived>();
  arrived->tag = header.tag;
  arrived->length = header.length;
  arrived->remote_id = header.id;
  arrived->announced = true;
  c.arrived.push_back(*arrived.release());
  return true;
}

void Peer::clear(TcpOp& op, std::uint64_t remote_id, std::uint64_t length) {
  FrameHeader header;
  header.type = FrameType::kClear;
  header.message_class = op.message_class;
  header.flags = length > op.size ? kFlagTooBig : 0;
  header.tag = op.id.value;
  header.id = remote_id;
  push(control(), header, nullptr);
  if (length > op.size) return finish(op, Errc::kMessageTooBig, 0);
  op.state = OpState::kAwaitData;
  op.arriving = length;
}

bool Peer::on_clear(const FrameHeader& header) {
  ClassState& c = state_of(header.message_class);
  TcpOp* op = host_.find_op(OpId(header.id));
  const bool live = op != nullptr && op->peer == this && op->state == OpState::kAnnounced &&
                    op->message_class == header.message_class;
  if (live) {
    --c.announced;
    if ((header.flags & kFlagTooBig) != 0) {
      finish(*op, Errc::kMessageTooBig, 0);
    } else {
      op->remote_id = header.tag;
      transmit(*op, FrameType::kData);
    }
    run_waiting(header.message_class);
    return true;
  }
  if (c.withdrawn == 0) return false;
  --c.withdrawn;
  if ((header.flags & kFlagTooBig) != 0) return true;
  FrameHeader answer;
  answer.type = FrameType::kNoData;
  answer.message_class = header.message_class;
  answer.id = header.tag;
  push(control(), answer, nullptr);
  return true;
}

bool Peer::on_data(Connection& connection, const FrameHeader& header) {
  TcpOp* op = host_.find_op(OpId(header.id));
  if (op == nullptr || op->peer != this || !op->receive) {
    ++host_.counters().dropped_messages;  // its receive was cancelled
    connection.expect(header, nullptr, nullptr);
    return true;
  }
  const bool fits =
      op->state == OpState::kAwaitData && op->message_class == header.message_class && op->arriving == header.length;
  if (fits) receive_into(connection, header, *op);
  return fits;
}

bool Peer::on_no_data(const FrameHeader& header) {
  TcpOp* op = host_.find_op(OpId(header.id));
  if (op == nullptr || op->peer != this || !op->receive) return true;  // cancelled on both sides
  if (op->state != OpState::kAwaitData) return false;
  // It waits for the next message of its tag again, before the receives that were posted after it.
  ClassState& c = state_of(op->message_class);
  if (c.arrived.front(op->tag) != nullptr) {
    match_or_post(*op);
  } else {
    op->state = OpState::kPosted;
    c.posted.push_front(*op);
  }
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
    return;
  }
}

}  // namespace spate::bmi::tcp
