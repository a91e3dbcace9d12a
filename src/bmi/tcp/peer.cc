// SPDX-License-Identifier: Apache-2.0
// The sending side of a peer, cancel and reset. What comes in: peer_receive.cc.
#include "bmi/tcp/peer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace spate::bmi::tcp {

Peer::Peer(PeerHost& host, PeerId peer_id, std::uint64_t seed)
    : id(peer_id), host_(host), seed_(seed), classes_{ClassState(seed), ClassState(seed)} {}

Peer::~Peer() {
  for (ClassState& c : classes_) {
    while (Node* node = c.arrived.take_any()) std::unique_ptr<Arrived>(static_cast<Arrived*>(node)).reset();
  }
}

void Peer::link(TcpOp& op) {
  op.previous_of_peer = last_op_;
  op.next_of_peer = nullptr;
  (last_op_ != nullptr ? last_op_->next_of_peer : first_op_) = &op;
  last_op_ = &op;
}

void Peer::unlink(TcpOp& op) {
  (op.previous_of_peer != nullptr ? op.previous_of_peer->next_of_peer : first_op_) = op.next_of_peer;
  (op.next_of_peer != nullptr ? op.next_of_peer->previous_of_peer : last_op_) = op.previous_of_peer;
}

Channel& Peer::channel_of(const TcpOp& op) {
  if (op.message_class == MessageClass::kControl) return channels[0];
  // Messages of one tag keep their order, so they keep to one connection.
  return channels[1 + (bulk_count > 1 ? (op.tag * 0x9E3779B97F4A7C15ULL >> 32U) % bulk_count : 0)];
}

bool Peer::post_send(TcpOp& op) {
  Channel& channel = channel_of(op);
  op.in_post = true;
  op.done_in_post = false;
  if (channel.connection == nullptr) {
    op.state = OpState::kWaitChannel;
    channel.waiting.push_back(op);
    want_channel(op);
  } else {
    begin_send(op);
    host_.flush(*channel.connection);
  }
  op.in_post = false;
  return op.done_in_post;
}

void Peer::want_channel(const TcpOp& op) {
  if (state == Standing::kIdle) return host_.connect_control(*this);
  if (state == Standing::kUp && op.message_class == MessageClass::kBulk) want_bulk();
}

void Peer::want_bulk() {
  if (std::exchange(bulk_wanted, true)) return;
  if (outbound) return host_.connect_bulk(*this);
  FrameHeader header;
  header.type = FrameType::kOpenBulk;
  push(control(), header, nullptr);
  host_.flush(control());
}

void Peer::begin_send(TcpOp& op) {
  if (op.unexpected) {
    if (op.size > remote_.max_unexpected) return finish(op, Errc::kMessageTooBig, 0);
    if (unexpected_waiting_.empty() && send_unexpected(op)) return;
    ++host_.counters().credit_stalls;
    op.state = OpState::kWaitCredit;
    unexpected_waiting_.push_back(op);
    return;
  }
  NodeList& waiting = state_of(op.message_class).sends_waiting;
  if (waiting.empty() && send_expected(op)) return;
  ++host_.counters().credit_stalls;
  op.state = OpState::kWaitTurn;
  waiting.push_back(op);
}

bool Peer::send_unexpected(TcpOp& op) {
  if (!charge(op)) return false;
  transmit(op, FrameType::kUnexpected);
  return true;
}

bool Peer::send_expected(TcpOp& op) {
  if (op.receiver_ready) {
    transmit(op, FrameType::kReady);
    return true;
  }
  if (op.size <= host_.options().eager_limit_bytes && charge(op)) {
    transmit(op, FrameType::kEager);
    return true;
  }
  ClassState& c = state_of(op.message_class);
  if (c.announced >= remote_.max_announced) return false;
  ++c.announced;
  op.state = OpState::kAnnounced;
  FrameHeader header;
  header.type = FrameType::kAnnounce;
  header.message_class = op.message_class;
  header.tag = op.tag;
  header.length = op.size;
  header.id = op.id.value;
  push(*channel_of(op).connection, header, nullptr);
  return true;
}

bool Peer::charge(TcpOp& op) {
  ClassState& c = state_of(op.message_class);
  const std::uint64_t cost = cost_of(op.size);
  // Expected messages without a receive leave part of the credit to unexpected ones.
  const std::uint64_t reserve = op.unexpected ? 0 : reserve_of(remote_, op.message_class);
  if (!c.ours.take(cost, reserve)) return false;
  op.charged = cost;
  return true;
}

void Peer::transmit(TcpOp& op, FrameType type) {
  FrameHeader header;
  header.type = type;
  header.message_class = op.message_class;
  header.tag = op.tag;
  header.length = op.size;
  header.id = type == FrameType::kData ? op.remote_id : 0;
  op.state = OpState::kSending;
  ++host_.counters().sent_messages;
  op.connection = channel_of(op).connection;
  push(*op.connection, header, &op);
}

void Peer::push(Connection& connection, FrameHeader header, TcpOp* op) {
  if (header.type != FrameType::kCredit) {
    const MessageClass c = connection.channel == 0 ? MessageClass::kControl : MessageClass::kBulk;
    header.credit = state_of(c).theirs.take_owed();
  }
  connection.queue().push(header, op);
}

void Peer::sent(TcpOp& op) {
  if (op.zero_copy_sends > 0) {
    op.state = OpState::kLent;
    return;
  }
  op.connection = nullptr;
  finish(op, Errc::kOk, op.size);
}

void Peer::told(OpId op_id) {
  TcpOp* const op = host_.find_op(op_id);
  if (op == nullptr || --op->zero_copy_sends > 0 || op->state != OpState::kLent) return;
  sent(*op);
}

void Peer::finish(TcpOp& op, Errc status, std::uint64_t actual_size) {
  if (op.in_post && status == Errc::kOk) {
    op.done_in_post = true;
  } else {
    host_.completed(op, status, actual_size);
  }
}

void Peer::run_waiting(MessageClass c) {
  ClassState& s = state_of(c);
  while (!s.sends_waiting.empty()) {
    TcpOp& op = op_of(*s.sends_waiting.front());
    if (!send_expected(op)) break;
    // send_expected leaves the links alone: nothing completes before the flush.
    s.sends_waiting.pop_front();
  }
  if (c == MessageClass::kBulk) return;
  while (!unexpected_waiting_.empty()) {
    TcpOp& op = op_of(*unexpected_waiting_.front());
    if (!send_unexpected(op)) break;
    unexpected_waiting_.pop_front();
  }
}

void Peer::opened(Connection& connection, const Limits& limits) {
  connection.peer = this;
  connection.from_this_host = same_host;
  connection.segment_bytes = segment_bytes(connection.socket());
  connection.set_handler(*this);
  channels[connection.channel].connection = &connection;
  if (connection.channel != 0 && host_.lends(*this)) {
    connection.queue().lend(ZeroCopySends::enable(connection.socket()));
  }
  ++(outbound ? host_.counters().connections_made : host_.counters().connections_accepted);
  if (connection.channel == 0) {
    state = Standing::kUp;
    failure.clear();
    ++connections;
    remote_ = limits;
    for (ClassState& c : classes_) c.ours.available = limits.window;
    bulk_wanted = false;
    bool bulk = outbound && !state_of(MessageClass::kBulk).posted.empty();
    for (unsigned i = 1; i <= bulk_count; ++i) bulk = bulk || !channels[i].waiting.empty();
    if (bulk) want_bulk();
  }
  NodeList waiting = std::exchange(channels[connection.channel].waiting, NodeList());
  while (Node* node = waiting.pop_front()) begin_send(op_of(*node));
  host_.flush(connection);
}

void Peer::cancel(TcpOp& op) {
  ClassState& c = state_of(op.message_class);
  switch (op.state) {
    case OpState::kWaitChannel: channel_of(op).waiting.remove(op); break;
    case OpState::kWaitCredit: unexpected_waiting_.remove(op); break;
    case OpState::kWaitTurn: c.sends_waiting.remove(op); break;
    case OpState::kSending: return cancel_sending(op);
    case OpState::kLent: return host_.begin_grace(*op.connection, op);
    case OpState::kAnnounced: return cancel_announced(op);
    case OpState::kPosted: c.posted.remove(op); break;
    case OpState::kAwaitData: break;  // the data will find no receive and be dropped
    case OpState::kFilling: op.connection->drain_incoming(); break;
  }
  finish(op, Errc::kCancelled, 0);
}

void Peer::cancel_sending(TcpOp& op) {
  FrameHeader no_data;
  no_data.type = FrameType::kNoData;
  no_data.message_class = op.message_class;
  no_data.id = op.remote_id;
  const bool is_data = op.remote_id != 0;
  if (!op.connection->queue().withdraw(op, is_data ? &no_data : nullptr)) {
    return host_.begin_grace(*op.connection, op);
  }
  state_of(op.message_class).ours.available += op.charged;
  finish(op, Errc::kCancelled, 0);
}

void Peer::cancel_announced(TcpOp& op) {
  ClassState& c = state_of(op.message_class);
  --c.announced;
  ++c.withdrawn;
  Connection& connection = *channel_of(op).connection;
  FrameHeader header;
  header.type = FrameType::kWithdraw;
  header.message_class = op.message_class;
  header.tag = op.tag;
  header.id = op.id.value;
  push(connection, header, nullptr);
  const MessageClass message_class = op.message_class;
  finish(op, Errc::kCancelled, 0);
  run_waiting(message_class);
  flush_all();
}

void Peer::reset(Errc status) {
  for (Channel& channel : channels) channel = Channel();
  bulk_wanted = false;
  link_key.reset();
  unexpected_waiting_ = NodeList();
  for (ClassState& c : classes_) {
    while (Node* node = c.arrived.take_any()) std::unique_ptr<Arrived>(static_cast<Arrived*>(node)).reset();
    c = ClassState(seed_);
  }
  while (first_op_ != nullptr) host_.completed(*first_op_, status, 0);
}

bool Peer::has_bulk() const {
  return std::any_of(channels.begin() + 1, channels.end(),
                     [](const Channel& c) { return c.connection != nullptr || c.opening != nullptr; });
}

bool Peer::at_rest() const {
  bool rest = first_op_ == nullptr && undelivered_ == 0;
  for (const ClassState& c : classes_) rest = rest && c.arrived.empty();
  for (const Channel& channel : channels) {
    if (channel.opening != nullptr) return false;
    if (channel.connection == nullptr) continue;
    rest = rest && channel.connection->queue().empty() && !channel.connection->incoming().active;
  }
  return rest;
}

std::uint64_t Peer::traffic() const {
  std::uint64_t bytes = 0;
  for (const Channel& channel : channels) {
    if (channel.connection == nullptr) continue;
    bytes += channel.connection->bytes_read() + channel.connection->queue().bytes_sent();
  }
  return bytes;
}

void Peer::flush_all() {
  for (unsigned i = 0; i <= bulk_count; ++i) {
    Connection* connection = channels[i].connection;
    if (connection != nullptr && !connection->queue().empty()) host_.flush(*connection);
  }
}

Limits Peer::grant_limits() {
  for (ClassState& c : classes_) c.theirs = protocol::ReceiveCredit();
  state_of(MessageClass::kControl).theirs.held = undelivered_;
  Limits limits = host_.local_limits();
  limits.window -= std::min(limits.window, undelivered_);
  return limits;
}

}  // namespace spate::bmi::tcp
