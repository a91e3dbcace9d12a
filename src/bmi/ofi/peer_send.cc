// SPDX-License-Identifier: Apache-2.0
// The packets that a peer sends.
#include <algorithm>
#include <utility>

#include "bmi/ofi/peer.h"

namespace spate::bmi::ofi {
namespace {

// The most packets of one peer in flight. Bulk data may use a part of them; the rest is for control messages.
constexpr std::uint32_t kPacketsAtOnce = 32;
constexpr std::uint32_t kBulkAtOnce = 24;

}  // namespace

/// Writes the frames of a queue into packets.
class Peer::QueueWriter {
 public:
  QueueWriter(Peer& peer, MessageClass c) : peer_(peer), class_(c) {}

  bool room(std::uint64_t wanted, bool /*message*/, protocol::Room& room) {
    const MutableByteView all = peer_.room(class_);
    room.first = all.first(std::min<std::uint64_t>(wanted, all.size()));
    return !all.empty();
  }
  void publish(const protocol::Header& header, std::uint64_t payload) { peer_.publish(header, payload); }

 private:
  Peer& peer_;
  MessageClass class_;
};

bool Peer::send_at_once(const Post& post, bool unexpected) {
  if (state != PeerPhase::kUp || doomed || !queue_of(post.message_class).empty()) return false;
  if (!std::ranges::all_of(post.segments, [](const Segment& s) { return s.memory != nullptr || s.size == 0; }))
    return false;
  const MutableByteView to = room(post.message_class);
  if (to.empty() || post.size > to.size()) return false;
  protocol::Header header;
  if (!sender().admit(post, unexpected, header)) return false;
  std::byte* at = to.data();
  for (const Segment& segment : post.segments) at = std::copy_n(segment.memory, segment.size, at);
  publish(header, post.size);
  ++host_.counters().sent_at_once;
  if (route->failed || has_work()) host_.keep_turning(*this);
  return true;
}

bool Peer::pin(Op& op) {
  host_.look_at_pages();
  op.pin_cache = &wire->pins();
  for (const Segment& segment : op.segments.view()) {
    if (segment.size == 0) continue;
    const Result<PinCache::Region*> region = wire->pins().acquire({segment.memory, segment.size});
    if (!region) return false;
    op.pins.push_back(*region);
  }
  return true;
}

/// Whether a copy costs less than the registration that the operation would need.
bool Peer::better_copied(const Op& op) {
  if (op.size > module().options->copy_limit_bytes) return false;
  host_.look_at_pages();
  const auto known = [&](const Segment& segment) { return wire->pins().holds({segment.memory, segment.size}); };
  if (std::ranges::all_of(op.segments.view(), known)) return false;
  ++host_.counters().copied_below_limit;
  return true;
}

bool Peer::offer(Op& op, const protocol::Header& header) {
  if (!wire->reads() || op.size == 0) return false;
  std::size_t pieces = 0;
  for (const Segment& segment : op.segments.view()) {
    if (segment.size > 0 && segment.memory == nullptr) return false;  // a file is read into packets
    pieces += segment.size > 0 ? 1 : 0;
  }
  const std::size_t packet_bytes = std::min<std::size_t>(sender().limits().max_packet, wire->packet_bytes());
  if (pieces > std::min(kMaxExtents, (packet_bytes - kHeaderSize) / kExtentSize)) return false;
  if (better_copied(op)) return false;
  if (!pin(op)) {
    for (PinCache::Region* region : op.pins) wire->pins().release(*region);
    op.pins.clear();
    ++host_.counters().copied_for_want_of_registration;
    return false;
  }
  extents_.clear();
  std::size_t i = 0;
  for (const Segment& segment : op.segments.view()) {
    if (segment.size > 0) extents_.push_back(wire->extent_of(*op.pins[i++], segment.memory, segment.size));
  }
  Bytes payload;
  encode(extents_, payload);
  queue_of(op.message_class).push_own(header, std::move(payload));
  return true;
}

/// Returns room for the payload of the next packet; empty if there is none now.
MutableByteView Peer::room(MessageClass c) {
  if (route->refused != nullptr || route->failed) return {};
  if (route->in_flight >= (c == MessageClass::kBulk ? kBulkAtOnce : kPacketsAtOnce)) return {};
  if (buffer_ == nullptr) buffer_ = wire->take_buffer();
  if (buffer_ == nullptr) return {};
  const std::uint32_t most = sender().limits().max_packet;
  const std::size_t size = std::min<std::size_t>(wire->packet_bytes(), most == 0 ? SIZE_MAX : most);
  return {Wire::data_of(*buffer_) + kHeaderSize, size - kHeaderSize};
}

/// Sends what was written to room().
void Peer::publish(const protocol::Header& header, std::size_t payload) {
  PacketHeader whole{header, remote_session, {}};
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    whole.credit[index_of(c)] = receiver().take_owed(c);
  }
  PacketBuffer& buffer = *std::exchange(buffer_, nullptr);
  encode(whole, payload, Wire::data_of(buffer));
  ++host_.counters().packets_sent;
  // A packet that the provider refuses is sent in a later turn.
  (void)wire->send(*route, buffer, kHeaderSize + payload);
}

/// Every packet carries the credit that is owed. The credit gets a packet of its own only if the peer might wait for
/// it.
void Peer::return_credit() {
  protocol::FrameQueue& queue = queue_of(MessageClass::kControl);
  if (!queue.empty()) return;
  if (!receiver().owes_much(MessageClass::kControl) && !receiver().owes_much(MessageClass::kBulk)) return;
  protocol::Header header;
  header.type = kCredit;
  queue.push(header, nullptr);
}

bool Peer::flush() {
  if (state != PeerPhase::kUp) return false;
  const std::uint64_t before = host_.counters().packets_sent;
  (void)wire->resend(*route);
  return_credit();
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    if (queue_of(c).empty()) continue;
    QueueWriter writer(*this, c);
    (void)queue_of(c).flush(writer, sender());
    if (queue_of(c).too_many_answers()) module().lose_later(*this, Errc::kProtocol);
  }
  if (route->failed) module().lose_later(*this, Errc::kConnectionLost);
  if (has_work()) host_.keep_turning(*this);
  return host_.counters().packets_sent != before;
}

void Peer::say(FrameType type) {
  if (route == nullptr) return;
  protocol::Header header;
  header.type = type;
  if (!room(MessageClass::kControl).empty()) publish(header, 0);
}

void Peer::say_bye() {
  if (route == nullptr || route->failed) return;
  PacketBuffer* buffer = std::exchange(route->refused, nullptr);
  if (buffer == nullptr) buffer = std::exchange(buffer_, nullptr);
  if (buffer == nullptr) buffer = wire->take_buffer();
  if (buffer == nullptr) return;
  PacketHeader header;
  header.type = kBye;
  header.session = remote_session;
  encode(header, 0, Wire::data_of(*buffer));
  ++host_.counters().packets_sent;
  (void)wire->send(*route, *buffer, kHeaderSize);
}

}  // namespace spate::bmi::ofi
