// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/peer.h"

#include <algorithm>
#include <utility>

namespace spate::bmi::tcp {
namespace {

MessageClass class_of(const Connection& connection) {
  return connection.channel == 0 ? MessageClass::kControl : MessageClass::kBulk;
}

}  // namespace

Channel& Peer::channel_of(MessageClass c, std::uint64_t tag) {
  if (c == MessageClass::kControl) return channels[0];
  // Messages of one tag keep their order, so they all use the same connection.
  return channels[1 + (bulk_count > 1 ? (tag * 0x9E3779B97F4A7C15ULL >> 32U) % bulk_count : 0)];
}

// --- the life of connections ---

void Peer::open_channel(Connection& connection) {
  connection.peer = this;
  connection.from_this_host = same_host && connection.stream() == nullptr;
  connection.segment_bytes = segment_bytes(connection.socket());
  connection.set_handler(*this);
  channels[connection.channel].connection = &connection;
  if (connection.channel != 0 && connection.stream() == nullptr && host_.lends(*this)) {
    connection.queue().lend(ZeroCopySends::enable(connection.socket()));
  }
  ++(outbound ? host_.counters().connections_made : host_.counters().connections_accepted);
}

void Peer::connected(Connection& connection, const Limits& limits) {
  open_channel(connection);
  if (connection.channel == 0) {
    up(limits);
    bulk_wanted = false;
    const MessageClass bulk = MessageClass::kBulk;
    if (waits_for(bulk) || (outbound && receiver().expects(bulk))) want_bulk();
    opened(MessageClass::kControl);
  } else if (bulk_is_open()) {
    opened(MessageClass::kBulk);
  }
  flush_all();
}

void Peer::secured_by(const tls::Stream* stream) {
  security = stream == nullptr ? std::string() : stream->description();
  binding = stream == nullptr ? Hash{} : stream->binding();
}

bool Peer::bulk_is_open() const {
  return std::all_of(channels.begin() + 1, channels.begin() + 1 + bulk_count,
                     [](const Channel& c) { return c.connection != nullptr; });
}

void Peer::disconnected(Errc status) {
  channels = {};
  bulk_wanted = false;
  link_key.reset();
  for (Op* op = first_op(); op != nullptr; op = op->next_of_peer) op->uses = 0;
  reset(status);
}

void Peer::want(MessageClass c) {
  if (state == PeerPhase::kIdle) return host_.connect_control(*this);
  if (state == PeerPhase::kUp && c == MessageClass::kBulk) want_bulk();
}

void Peer::want_bulk() {
  if (std::exchange(bulk_wanted, true)) return;
  if (outbound) return host_.connect_bulk(*this);
  protocol::Header header;
  header.type = kOpenBulk;
  answer(header);
  host_.flush(control());
}

bool Peer::has_bulk() const {
  return std::any_of(channels.begin() + 1, channels.end(),
                     [](const Channel& c) { return c.connection != nullptr || c.opening != nullptr; });
}

bool Peer::at_rest() const {
  bool rest = first_op() == nullptr && receiver().empty();
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

// --- what goes out ---

void Peer::push(const protocol::Header& header, Op* op) {
  push(*channel_of(header.message_class, header.tag).connection, header, op);
}

void Peer::push(Connection& connection, const protocol::Header& header, Op* op) {
  connection.queue().push(header, receiver().take_owed(class_of(connection)), op);
}

protocol::Withdrawn Peer::withdraw(Op& op, const protocol::Header* instead) {
  SendQueue& queue = channel_of(op.message_class, op.tag).connection->queue();
  return queue.withdraw(op, instead) ? protocol::Withdrawn::kUnsent : protocol::Withdrawn::kLeaving;
}

void Peer::grace(Op& op) { host_.begin_grace(*channel_of(op.message_class, op.tag).connection, op); }

void Peer::sent(Op& op) {
  if (op.uses > 0) {
    op.state = OpState::kHeld;
  } else {
    sender().sent(op);
  }
}

void Peer::told(OpId op_id) {
  Op* const op = module().find_op(op_id);
  if (op == nullptr || --op->uses > 0 || op->state != OpState::kHeld) return;
  sender().sent(*op);
}

/// Every frame carries the credit that is owed. The credit gets a frame of its own only if the peer might wait for it.
void Peer::return_credit() {
  if (channels[0].connection == nullptr) return;
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    if (!receiver().owes_much(c)) continue;
    protocol::Header header;
    header.type = kCredit;
    header.message_class = c;
    control().queue().push(header, receiver().take_owed(c), nullptr);
  }
}

void Peer::flush_posted(MessageClass c) {
  if (c == MessageClass::kControl) return host_.flush(control());
  for (unsigned i = 1; i <= bulk_count; ++i) {
    if (!channels[i].connection->queue().empty()) host_.flush(*channels[i].connection);
  }
}

void Peer::flush_all() {
  if (receiver().owes_much(MessageClass::kControl) || receiver().owes_much(MessageClass::kBulk)) return_credit();
  for (unsigned i = 0; i <= bulk_count; ++i) {
    Connection* connection = channels[i].connection;
    if (connection != nullptr && !connection->queue().empty()) host_.flush(*connection);
  }
}

// --- frames of the peer, which another process wrote; false: the peer broke the protocol ---

bool Peer::on_header(Connection& connection, const std::byte* bytes) {
  const std::optional<FrameHeader> header = decode_frame(bytes);
  if (!header || !check_credit(connection, *header)) return false;
  const bool on_control = connection.channel == 0;
  const bool class_fits = header->message_class == class_of(connection);
  switch (header->type) {
    case FrameType::kEager:
    case FrameType::kUnexpected:
    case FrameType::kReady:
    case FrameType::kData: return class_fits && receiver().begin(connection.incoming(), *header);
    case FrameType::kAnnounce: return class_fits && receiver().on_announce(*header, {});
    case FrameType::kWithdraw: return class_fits && protocol::PeerBase::control(*header);
    case FrameType::kNoData: return protocol::PeerBase::control(*header);
    case FrameType::kClear: return on_control && protocol::PeerBase::control(*header);
    default: break;
  }
  if (header->type == kOpenBulk && on_control && outbound) {
    want_bulk();
    return true;
  }
  return header->type == kCredit && on_control;
}

bool Peer::check_credit(const Connection& connection, const FrameHeader& header) {
  if (header.credit == 0) return true;
  return sender().give(header.type == kCredit ? header.message_class : class_of(connection), header.credit);
}

void Peer::on_payload(Connection& connection) {
  if (connection.incoming().header.type == FrameType::kUnexpected) host_.control_arrived();
  receiver().whole(connection.incoming());
}

}  // namespace spate::bmi::tcp
