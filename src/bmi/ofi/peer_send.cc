// SPDX-License-Identifier: Apache-2.0
// The sending side of a peer.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "bmi/ofi/peer.h"

namespace spate::bmi::ofi {
namespace {

// Packets of one peer on their way; what bulk data may not take is left to control messages.
constexpr std::uint32_t kPacketsAtOnce = 32;
constexpr std::uint32_t kBulkAtOnce = 24;

}  // namespace

bool Peer::post_send(OfiOp& op) {
  op.in_post = true;
  op.done_in_post = false;
  if (state != Standing::kUp) {
    op.state = OpState::kWaitLink;
    waiting_.push_back(op);
    if (state == Standing::kIdle) host_.connect(*this);
  } else {
    begin_send(op);
    flush();
  }
  op.in_post = false;
  return op.done_in_post;
}

bool Peer::send_at_once(const Post& post, bool unexpected) {
  if (state != Standing::kUp || doomed) return false;
  ClassState& c = state_of(post.message_class);
  const bool first = c.queue.empty() && (unexpected ? unexpected_waiting_ : c.sends_waiting).empty();
  if (!first || (unexpected && post.size > remote_.max_unexpected)) return false;
  if (!std::ranges::all_of(post.segments, [](const Segment& s) { return s.memory != nullptr || s.size == 0; }))
    return false;
  writing_ = post.message_class;
  const MutableByteView to = room();
  if (to.empty() || post.size > to.size()) return false;
  const bool ready = post.receiver_ready && !unexpected;
  if (!ready && !charge(post.message_class, cost_of(post.size), unexpected)) return false;
  std::byte* at = to.data();
  for (const Segment& segment : post.segments) at = std::copy_n(segment.memory, segment.size, at);
  PacketHeader header;
  header.type = unexpected ? PacketType::kUnexpected : ready ? PacketType::kReady : PacketType::kEager;
  header.message_class = post.message_class;
  header.tag = post.tag.value;
  header.length = post.size;
  publish(header, post.size);
  ++host_.counters().sent_at_once;
  if (route->failed || has_work()) host_.keep_turning(*this);
  return true;
}

void Peer::begin_send(OfiOp& op) {
  if (op.unexpected) {
    if (op.size > remote_.max_unexpected) return finish(op, Errc::kMessageTooBig, 0);
    if (unexpected_waiting_.empty() && send_unexpected(op)) return;
    op.state = OpState::kWaitCredit;
    unexpected_waiting_.push_back(op);
    return;
  }
  NodeList& waiting = state_of(op.message_class).sends_waiting;
  if (waiting.empty() && send_expected(op)) return;
  op.state = OpState::kWaitTurn;
  waiting.push_back(op);
}

bool Peer::send_unexpected(OfiOp& op) {
  if (!charge(op)) return false;
  transmit(op, PacketType::kUnexpected);
  return true;
}

bool Peer::send_expected(OfiOp& op) {
  const bool small = op.size <= host_.options().eager_limit_bytes;
  ClassState& c = state_of(op.message_class);
  const bool may_announce = c.announced < remote_.max_announced;
  if (!small && may_announce && offer(op)) return true;
  if (op.receiver_ready) {
    transmit(op, PacketType::kReady);
    return true;
  }
  if (small && charge(op)) {
    transmit(op, PacketType::kEager);
    return true;
  }
  if (may_announce) announce(op);
  return may_announce;
}

bool Peer::pin(OfiOp& op) {
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

/// A copy costs less than the registration that would be needed.
bool Peer::better_copied(const OfiOp& op) {
  if (op.size > host_.options().copy_limit_bytes) return false;
  host_.look_at_pages();
  const auto known = [&](const Segment& segment) { return wire->pins().holds({segment.memory, segment.size}); };
  if (std::ranges::all_of(op.segments.view(), known)) return false;
  ++host_.counters().copied_below_limit;
  return true;
}

bool Peer::offer(OfiOp& op) {
  if (!wire->reads() || op.size == 0) return false;
  std::size_t pieces = 0;
  for (const Segment& segment : op.segments.view()) {
    if (segment.size > 0 && segment.memory == nullptr) return false;  // a file is read into packets
    pieces += segment.size > 0 ? 1 : 0;
  }
  if (pieces > std::min(kMaxExtents,
                        (std::min<std::size_t>(remote_.max_packet, wire->packet_bytes()) - kHeaderSize) / kExtentSize))
    return false;
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
  PacketHeader header;
  header.type = op.receiver_ready ? PacketType::kReady : PacketType::kAnnounce;
  header.message_class = op.message_class;
  header.flags = kFlagLocated;
  header.tag = op.tag;
  header.length = op.size;
  header.id = op.id.value;
  ++state_of(op.message_class).announced;
  op.state = OpState::kAnnounced;
  op.located = true;
  state_of(op.message_class).queue.push_own(header, std::move(payload));
  return true;
}

void Peer::announce(OfiOp& op) {
  ++state_of(op.message_class).announced;
  op.state = OpState::kAnnounced;
  op.located = false;
  PacketHeader header;
  header.type = PacketType::kAnnounce;
  header.message_class = op.message_class;
  header.tag = op.tag;
  header.length = op.size;
  header.id = op.id.value;
  state_of(op.message_class).queue.push(header, nullptr);
}

bool Peer::charge(OfiOp& op) {
  const std::uint64_t cost = cost_of(op.size);
  if (!charge(op.message_class, cost, op.unexpected)) return false;
  op.charged = cost;
  return true;
}

bool Peer::charge(MessageClass message_class, std::uint64_t cost, bool unexpected) {
  // Expected messages without a receive leave part of the credit to unexpected ones.
  return state_of(message_class).ours.take(cost, unexpected ? 0 : reserve_of(remote_, message_class));
}

void Peer::transmit(OfiOp& op, PacketType type) {
  PacketHeader header;
  header.type = type;
  header.message_class = op.message_class;
  header.tag = op.tag;
  header.length = op.size;
  header.id = type == PacketType::kData ? op.remote_id : 0;
  op.state = OpState::kSending;
  op.left = op.size;
  state_of(op.message_class).queue.push(header, &op);
}

void Peer::push(const PacketHeader& header, OfiOp* op) { state_of(header.message_class).queue.push(header, op); }

void Peer::answer(PacketType type, MessageClass c, std::uint64_t remote_id) {
  PacketHeader header;
  header.type = type;
  header.message_class = c;
  header.id = remote_id;
  state_of(MessageClass::kControl).queue.push(header, nullptr);
}

void Peer::sent(OfiOp& op) { finish(op, Errc::kOk, op.size); }

void Peer::failed(OfiOp& op, Errc status) {
  PacketHeader no_data;
  no_data.type = PacketType::kNoData;
  no_data.message_class = op.message_class;
  no_data.id = op.remote_id;
  ClassState& c = state_of(op.message_class);
  if (c.queue.withdraw(op, op.remote_id != 0 ? &no_data : nullptr)) c.ours.available += op.charged;
  finish(op, status, 0);
}

void Peer::run_waiting() {
  for (ClassState& c : classes_) {
    while (!c.sends_waiting.empty()) {
      // send_expected leaves the links alone: nothing completes before the flush.
      if (!send_expected(op_of(*c.sends_waiting.front()))) break;
      c.sends_waiting.pop_front();
    }
  }
  while (!unexpected_waiting_.empty()) {
    if (!send_unexpected(op_of(*unexpected_waiting_.front()))) break;
    unexpected_waiting_.pop_front();
  }
}

MutableByteView Peer::room() {
  if (route->refused != nullptr || route->failed) return {};
  if (route->in_flight >= (writing_ == MessageClass::kBulk ? kBulkAtOnce : kPacketsAtOnce)) return {};
  if (slot_ == nullptr) slot_ = wire->take_slot();
  if (slot_ == nullptr) return {};
  const std::size_t size =
      std::min<std::size_t>(wire->packet_bytes(), remote_.max_packet == 0 ? SIZE_MAX : remote_.max_packet);
  return {Wire::data_of(*slot_) + kHeaderSize, size - kHeaderSize};
}

void Peer::publish(const PacketHeader& header, std::size_t payload) {
  PacketHeader whole = header;
  whole.session = remote_session;
  for (std::size_t i = 0; i < kClasses; ++i) whole.credit[i] = classes_[i].theirs.take_owed();
  Slot& slot = *std::exchange(slot_, nullptr);
  encode(whole, payload, Wire::data_of(slot));
  ++host_.counters().packets_sent;
  (void)wire->send(*route, slot, kHeaderSize + payload);  // what is refused goes out in a next turn
}

bool Peer::flush() {
  // A peer that makes this side answer without fetching the answers cannot make it queue them without bound.
  constexpr std::size_t kMaxAnswers = 64 * 1024;
  if (state != Standing::kUp) return false;
  const std::uint64_t before = host_.counters().packets_sent;
  (void)wire->resend(*route);
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    writing_ = c;
    (void)state_of(c).queue.flush(*this, *this);
    if (state_of(c).queue.answers() > kMaxAnswers) host_.lose_later(*this, Errc::kProtocol);
  }
  if (route->failed) host_.lose_later(*this, Errc::kConnectionLost);
  if (has_work()) host_.keep_turning(*this);
  return host_.counters().packets_sent != before;
}

}  // namespace spate::bmi::ofi
