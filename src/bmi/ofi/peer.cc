// SPDX-License-Identifier: Apache-2.0
// The life of a session, and packets that come in. Packets that go out: peer_send.cc. Reads of the peer's memory:
// peer_read.cc.
#include "bmi/ofi/peer.h"

#include <algorithm>
#include <utility>

namespace spate::bmi::ofi {

void Peer::want(MessageClass /*c*/) {
  if (state == PeerPhase::kIdle) host_.connect(*this);
}

void Peer::connected(const Limits& limits) {
  ++host_.counters().connections;
  up(limits);
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) opened(c);
  flush();
}

Limits Peer::grant_limits() {
  Limits limits = receiver().grant();
  limits.max_packet = static_cast<std::uint32_t>(wire->packet_bytes());
  return limits;
}

void Peer::disconnected(Errc status) {
  if (buffer_ != nullptr) wire->give_buffer(*std::exchange(buffer_, nullptr));
  if (route != nullptr) wire->close_route(*std::exchange(route, nullptr));
  pulls_ = NodeList();
  queues_ = {};
  incoming_ = {};
  for (Op* op = first_op(); op != nullptr; op = op->next_of_peer) {
    // A peer with the key must not read what the memory holds after this operation.
    if (op->located) {
      for (PinCache::Region* region : op->pins) wire->pins().forget(*region);
    }
    if (op->state == OpState::kHeld) {
      op->remote_id = 0;  // there is no peer any more that could be answered
    } else if (op->uses > 0) {
      end_later(*op, status);
    }
  }
  reset(status);
}

bool Peer::has_work() const {
  if (state != PeerPhase::kUp) return false;
  const bool queued = std::ranges::any_of(queues_, [](const protocol::FrameQueue& queue) { return !queue.empty(); });
  return queued || route->refused != nullptr || (!pulls_.empty() && reads_ == 0);
}

bool Peer::turn() {
  if (state != PeerPhase::kUp) return false;
  const bool reads = begin_reads();
  return flush() || reads;
}

void Peer::grace(Op& op) {
  if (op.state == OpState::kWithdrawing) op.deadline = host_.begin_grace();
}

// Another process wrote everything that arrives. Functions that return bool return false when it breaks the protocol,
// and the module drops the peer.

bool Peer::on_packet(const Packet& packet) {
  const PacketHeader& header = packet.header;
  const bool bare = packet.payload.empty();
  protocol::Incoming& incoming = incoming_[index_of(header.message_class)];
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    const std::uint32_t credit = header.credit[index_of(c)];
    if (credit != 0 && !sender().give(c, credit)) return false;
  }
  switch (header.type) {
    case FrameType::kReady:
      if ((header.flags & kFlagLocated) != 0) return on_announce(packet);
      [[fallthrough]];
    case FrameType::kEager:
    case FrameType::kUnexpected:
    case FrameType::kData:
    case FrameType::kMore:
      host_.counters().packet_bytes += packet.payload.size();
      return receiver().take(incoming, header, packet.payload);
    case FrameType::kAbort: return bare && receiver().abort(incoming);
    case FrameType::kAnnounce: return on_announce(packet);
    case FrameType::kWithdraw:
    case FrameType::kNoData:
    case FrameType::kClear:
    case FrameType::kTaken:
    case FrameType::kWithdrawn: return bare && control(header);
  }
  if (header.type == kPing && queue_of(MessageClass::kControl).empty()) {
    protocol::Header pong;
    pong.type = kPong;
    answer(pong);
  }
  // The module handles these packets itself.
  return bare && (header.type == kPing || header.type == kPong || header.type == kCredit);
}

bool Peer::on_announce(const Packet& packet) {
  const PacketHeader& header = packet.header;
  if ((header.flags & kFlagLocated) == 0) return packet.payload.empty() && receiver().on_announce(header, {});
  std::optional<std::vector<Extent>> source = decode_extents(packet.payload, header.length);
  return source && receiver().on_announce(header, std::move(*source));
}

}  // namespace spate::bmi::ofi
