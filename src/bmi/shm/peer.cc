// SPDX-License-Identifier: Apache-2.0
// Frames that go out over a link, and the life of a peer. Frames that come in: peer_turn.cc.
#include "bmi/shm/peer.h"

#include <algorithm>
#include <utility>

#include "base/codec.h"
#include "base/copy.h"

namespace spate::bmi::shm {
namespace {

constexpr std::array kBothClasses{MessageClass::kControl, MessageClass::kBulk};

MutableByteView bytes_of(InlineWords& words, std::uint64_t size) {
  return std::as_writable_bytes(std::span(words)).first(size);
}

/// The memory for a payload of at most LaneWriter::max_chunk(). The lane has room for it.
Room room_for(LaneWriter& lane, InlineWords& small, std::uint64_t size) {
  return size <= kInlineBytes ? Room{bytes_of(small, size), {}} : lane.room(size);
}

/// Writes a message with memory segments only. It fits one frame, and the lane has room for it.
void write_message(LaneWriter& lane, const FrameHeader& header, SegmentList segments) {
  InlineWords small{};
  Room room = room_for(lane, small, header.length);
  for (const Segment& segment : segments) {
    ByteView left(segment.memory, segment.size);
    while (!left.empty()) {
      MutableByteView& to = room.first.empty() ? room.second : room.first;
      const std::size_t size = std::min(left.size(), to.size());
      copy_memory(to.data(), left.data(), size);
      to = to.subspan(size);
      left = left.subspan(size);
    }
  }
  lane.publish(header, header.length, small);
}

}  // namespace

/// Writes the frames of a queue into a lane, and messages of at most `budget` bytes.
class Peer::QueueWriter {
 public:
  QueueWriter(Link& link, MessageClass c, std::uint64_t budget) : link_(link), lane_(link.out(c)), budget_(budget) {}

  bool room(std::uint64_t wanted, bool message, Room& room) {
    const std::uint64_t chunk = std::min(wanted, lane_.max_chunk());
    if (!lane_.has_room(chunk)) return false;
    budget_spent_ = message && budget_ == 0;
    if (budget_spent_) return false;
    if (message) budget_ -= std::min(budget_, chunk);
    small_ = {};
    room = room_for(lane_, small_, chunk);
    return true;
  }

  void publish(const FrameHeader& header, std::uint64_t payload) {
    lane_.publish(header, payload, small_);
    wrote_ = true;
    if (header.type != kWiden) return;
    link_.widen_out(header.message_class);
    widened_ = true;
  }

  bool budget_spent() const { return budget_spent_; }
  bool wrote() const { return wrote_; }
  bool widened() const { return widened_; }

 private:
  Link& link_;
  LaneWriter& lane_;
  std::uint64_t budget_;
  InlineWords small_{};
  bool budget_spent_ = false;
  bool wrote_ = false;
  bool widened_ = false;
};

// --- the life of a link ---

Limits Peer::grant_limits() {
  returned_ = {};
  return receiver().grant();
}

void Peer::connected(Link& new_link, const Limits& limits) {
  link = &new_link;
  link->peer = this;
  fetched_ = {};
  frames_announced_ = 0;
  returned_any_ = false;
  up(limits);
  for (const MessageClass c : kBothClasses) opened(c);
  flush_all();
}

void Peer::disconnected(Errc status) {
  link = nullptr;
  pulls_ = NodeList();
  queues_ = {};
  incoming_ = {};
  reset(status);
}

void Peer::widen() {
  if (!link->wants_full_lanes()) return;
  const Result<UniqueFd> memory = link->make_full_lanes();
  // Without memory, descriptors or room for the note the link keeps its narrow lanes, which are slower.
  if (!memory || link->send_note(Note{Note::Kind::kLanes, 0, 0}, memory->get()) != 0) return;
  FrameHeader header;
  header.type = kWiden;
  for (const MessageClass c : kBothClasses) {
    header.message_class = c;
    queue_of(c).push_ahead(header);  // what has not begun goes through the full lane
  }
  flush_all();
}

void Peer::want(MessageClass /*c*/) {
  if (state == PeerPhase::kIdle) host_.connect(*this);
}

// --- what goes out ---

bool Peer::send_at_once(const Post& post, bool unexpected) {
  if (state != PeerPhase::kUp || !queue_of(post.message_class).empty()) return false;
  LaneWriter& lane = link->out(post.message_class);
  if (post.size > lane.max_chunk() || !lane.has_room(post.size)) return false;
  if (!std::ranges::all_of(post.segments, [](const Segment& s) { return s.memory != nullptr || s.size == 0; }))
    return false;
  FrameHeader header;
  if (!sender().admit(post, unexpected, header)) return false;
  write_message(lane, header, post.segments);
  ++host_.counters().sent_at_once;
  announce_progress();
  return true;
}

bool Peer::offer(Op& op, const FrameHeader& header) {
  // Only processes that could read this process's memory anyway get an arena, since it holds more than this message.
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
  queue_of(op.message_class).push_own(header, std::move(payload));
  return true;
}

std::uint64_t Peer::fetch_credit(MessageClass c, bool sleeps) {
  // The peer may return more credit than this link has charged: the window began smaller than its full size while
  // messages of an earlier link were not taken. The sum stays within what this side can count and never decreases.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48U;
  // This side announces that it waits before it reads the count. So the peer either wakes it, or has given back the
  // credit before that read.
  if (sleeps) link->wait_for(kWakeCredit);
  std::uint64_t& fetched = fetched_[index_of(c)];
  const std::uint64_t returned = link->theirs().returned[index_of(c)].load(std::memory_order_seq_cst);
  if (returned < fetched || returned - fetched > kMost) {
    module().lose_later(*this, Errc::kProtocol);
    return 0;
  }
  return returned - std::exchange(fetched, returned);
}

bool Peer::flush(MessageClass c, std::uint64_t budget) {
  if (sender().waits_for_credit()) sender().run_waiting();
  protocol::FrameQueue& queue = queue_of(c);
  if (queue.empty()) return false;
  QueueWriter writer(*link, c, budget);
  bool empty = queue.flush(writer, sender());
  if (!empty && !writer.budget_spent()) {
    link->wait_for(kWakeRoom);
    empty = queue.flush(writer, sender());  // room that the reader freed meanwhile caused no wake
  }
  if (!empty && writer.budget_spent()) host_.keep_turning(*this);
  if (link->out(c).broken() || queue.too_many_answers()) module().lose_later(*this, Errc::kProtocol);
  if (writer.widened()) frames_announced_ = kUnknown;  // the full lane counts its frames from zero
  return writer.wrote();
}

void Peer::flush_posted(MessageClass c) {
  // How many bytes are copied before the post returns. The rest follows in turns, so that no other thread waits longer
  // for the lock.
  constexpr std::uint64_t kPostBudget = 256 * 1024;
  flush(c, kPostBudget);
  announce_progress();
}

void Peer::flush_all() {
  constexpr std::uint64_t kBudget = 64 * 1024;
  for (const MessageClass c : kBothClasses) {
    return_credit(c);
    flush(c, kBudget);
  }
  announce_progress();
}

void Peer::return_credit(MessageClass c) {
  if (receiver().owed(c) == 0) return;
  std::uint64_t& returned = returned_[index_of(c)];
  while (receiver().owed(c) > 0) returned += receiver().take_owed(c);
  link->mine().returned[index_of(c)].store(returned, std::memory_order_release);
  returned_any_ = true;  // announce_progress() wakes the peer if it waits for credit
}

void Peer::give_back_now() {
  return_credit(MessageClass::kControl);
  announce_progress();
}

void Peer::announce_progress() {
  std::uint32_t bits = 0;
  std::uint64_t frames = 0;
  bool ordered = false;
  for (const MessageClass c : kBothClasses) {
    frames += link->out(c).frames();
    if (!link->in(c).publish_taken()) continue;
    ordered = true;
    if (link->in(c).worth_a_wake()) bits |= kWakeRoom;
  }
  if (std::exchange(returned_any_, false)) {
    // The store of the credit must come before the look at what the other side waits for. If publish_taken() published
    // anything, it has ensured this order.
    if (!ordered) std::atomic_thread_fence(std::memory_order_seq_cst);
    bits |= kWakeCredit;
  }
  if (std::exchange(frames_announced_, frames) != frames) bits |= kWakeFrames;
  if (bits != 0) link->wake(bits);
}

bool Peer::quiet() {
  if (!pulls_.empty()) return false;
  for (const MessageClass c : kBothClasses) {
    if (link->in(c).ready()) return false;
    if (queue_of(c).empty()) continue;
    link->wait_for(kWakeRoom);
    LaneWriter& lane = link->out(c);
    if (lane.has_room(lane.max_chunk()) || lane.broken()) return false;
  }
  return !sender().waits_for_credit() || sender().starves();
}

}  // namespace spate::bmi::shm
