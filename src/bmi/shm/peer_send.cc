// SPDX-License-Identifier: Apache-2.0
// The sending side of a peer.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/codec.h"
#include "bmi/shm/peer.h"

namespace spate::bmi::shm {

bool Peer::post_send(ShmOp& op) {
  // Copied before the post returns; the rest in turns, so that no other thread waits longer for the lock.
  constexpr std::uint64_t kPostBudget = 256 * 1024;
  op.in_post = true;
  op.done_in_post = false;
  if (state != Standing::kUp) {
    op.state = OpState::kWaitLink;
    waiting_.push_back(op);
    if (state == Standing::kIdle) host_.connect(*this);
  } else {
    begin_send(op);
    flush(op.message_class, kPostBudget);
    announce_progress();
  }
  op.in_post = false;
  return op.done_in_post;
}

bool Peer::send_at_once(const Post& post, bool unexpected) {
  if (state != Standing::kUp) return false;
  ClassState& c = state_of(post.message_class);
  LaneWriter& lane = link->out(post.message_class);
  const bool first = c.queue.empty() && (unexpected ? unexpected_waiting_ : c.sends_waiting).empty();
  if (!first || post.size > lane.max_chunk() || !lane.has_room(post.size)) return false;
  if (unexpected && post.size > remote_.max_unexpected) return false;
  if (!std::ranges::all_of(post.segments, [](const Segment& s) { return s.memory != nullptr || s.size == 0; }))
    return false;
  const bool ready = post.receiver_ready && !unexpected;
  if (!ready && !charge(post.message_class, cost_of(post.size), unexpected)) return false;
  FrameHeader header;
  header.type = unexpected ? FrameType::kUnexpected : ready ? FrameType::kReady : FrameType::kEager;
  header.message_class = post.message_class;
  header.tag = post.tag.value;
  header.length = post.size;
  write_message(lane, header, post.segments);
  ++host_.counters().sent_at_once;
  announce_progress();
  return true;
}

void Peer::begin_send(ShmOp& op) {
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

bool Peer::send_unexpected(ShmOp& op) {
  if (!charge(op)) return false;
  transmit(op, FrameType::kUnexpected);
  return true;
}

bool Peer::send_expected(ShmOp& op) {
  const bool small = op.size <= host_.options().eager_limit_bytes;
  ClassState& c = state_of(op.message_class);
  const bool may_announce = c.announced < remote_.max_announced;
  if (!small && may_announce && offer(op)) return true;
  if (op.receiver_ready) {
    transmit(op, FrameType::kReady);
    return true;
  }
  if (small && charge(op)) {
    transmit(op, FrameType::kEager);
    return true;
  }
  if (may_announce) announce(op);
  return may_announce;
}

bool Peer::offer(ShmOp& op) {
  // Only to processes that could read this process anyway, since an arena holds more than this message.
  if (!link->trusted || !host_.arenas().locate(op.segments.view(), extents_)) return false;
  for (const Extent& extent : extents_) {
    if (!link->show_arena(host_.arenas(), extent.arena)) return false;
  }
  Bytes payload;
  Encoder out(payload);
  for (const Extent& extent : extents_) {
    out.u32(extent.arena);
    out.u32(0);
    out.u64(extent.offset);
    out.u64(extent.size);
  }
  FrameHeader header;
  header.type = op.receiver_ready ? FrameType::kReady : FrameType::kAnnounce;
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

void Peer::announce(ShmOp& op) {
  ++state_of(op.message_class).announced;
  op.state = OpState::kAnnounced;
  op.located = false;
  FrameHeader header;
  header.type = FrameType::kAnnounce;
  header.message_class = op.message_class;
  header.tag = op.tag;
  header.length = op.size;
  header.id = op.id.value;
  state_of(op.message_class).queue.push(header, nullptr);
}

std::uint64_t Peer::credit(ClassState& c, MessageClass message_class) {
  // What comes back may exceed what was charged on this link: the window was granted with less than its full size while
  // messages of an earlier link were not taken. Never beyond what this side can count, and never backwards.
  constexpr std::uint64_t kMaxAhead = std::uint64_t{1} << 48U;
  const std::uint64_t returned = link->theirs().returned[index_of(message_class)].load(std::memory_order_seq_cst);
  if (returned < c.returned || returned > c.charged + kMaxAhead) {
    host_.lose_later(*this, Errc::kProtocol);
    return 0;
  }
  c.returned = returned;
  return remote_.window + returned - std::min(c.charged, remote_.window + returned);
}

bool Peer::charge(ShmOp& op) {
  const std::uint64_t cost = cost_of(op.size);
  if (!charge(op.message_class, cost, op.unexpected)) return false;
  op.charged = cost;
  return true;
}

bool Peer::charge(MessageClass message_class, std::uint64_t cost, bool unexpected) {
  ClassState& c = state_of(message_class);
  // Expected messages without a receive leave part of the credit to unexpected ones.
  const std::uint64_t need = cost + (unexpected ? 0 : reserve_of(remote_, message_class));
  const std::uint64_t remembered = remote_.window + c.returned - std::min(c.charged, remote_.window + c.returned);
  if (remembered < need && credit(c, message_class) < need) {
    if (!unexpected) return false;  // announced instead
    // Before this side goes to sleep over it: the peer wakes it, or has just given back what was missing.
    link->wait_for(kWakeCredit);
    if (credit(c, message_class) < need) return false;
  }
  c.charged += cost;
  return true;
}

void Peer::transmit(ShmOp& op, FrameType type) {
  FrameHeader header;
  header.type = type;
  header.message_class = op.message_class;
  header.tag = op.tag;
  header.length = op.size;
  header.id = type == FrameType::kData ? op.remote_id : 0;
  op.state = OpState::kSending;
  op.left = op.size;
  state_of(op.message_class).queue.push(header, &op);
}

void Peer::push(FrameHeader header, ShmOp* op) { state_of(header.message_class).queue.push(header, op); }

void Peer::answer(FrameType type, MessageClass c, std::uint64_t remote_id) {
  FrameHeader header;
  header.type = type;
  header.message_class = c;
  header.id = remote_id;
  state_of(MessageClass::kControl).queue.push(header, nullptr);
}

void Peer::sent(ShmOp& op) { finish(op, Errc::kOk, op.size); }

void Peer::failed(ShmOp& op, Errc status) {
  FrameHeader no_data;
  no_data.type = FrameType::kNoData;
  no_data.message_class = op.message_class;
  no_data.id = op.remote_id;
  ClassState& c = state_of(op.message_class);
  if (c.queue.withdraw(op, op.remote_id != 0 ? &no_data : nullptr)) c.charged -= op.charged;
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

bool Peer::flush(MessageClass message_class, std::uint64_t budget) {
  ClassState& c = state_of(message_class);
  LaneWriter& lane = link->out(message_class);
  if (!unexpected_waiting_.empty()) run_waiting();
  const std::uint64_t before = lane.frames();
  const bool narrow = link->narrow_out(message_class);
  FlushStatus status = c.queue.flush(lane, *this, budget);
  if (status == FlushStatus::kBlocked) {
    link->wait_for(kWakeRoom);
    status = c.queue.flush(lane, *this, budget);  // freeing room meanwhile causes no wake
  }
  if (status == FlushStatus::kMore) host_.keep_turning(*this);
  // A peer that makes this side answer without fetching the answers cannot make it queue them without bound.
  constexpr std::size_t kMaxAnswers = 64 * 1024;
  if (lane.broken() || c.queue.answers() > kMaxAnswers) host_.lose_later(*this, Errc::kProtocol);
  return lane.frames() != before || link->narrow_out(message_class) != narrow;
}

void Peer::flush_both() {
  constexpr std::uint64_t kBudget = 64 * 1024;
  flush(MessageClass::kControl, kBudget);
  flush(MessageClass::kBulk, kBudget);
  announce_progress();
}

}  // namespace spate::bmi::shm
