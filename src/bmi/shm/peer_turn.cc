// SPDX-License-Identifier: Apache-2.0
// What comes in over a link. Another process wrote all of it. Functions that return bool return false when that process
// breaks the protocol, and the module drops the peer.
#include <algorithm>
#include <array>
#include <utility>

#include "base/codec.h"
#include "bmi/shm/peer.h"

namespace spate::bmi::shm {

bool Peer::turn(MessageClass c, int frames) {
  // The most bytes of one class of one peer in a turn. A control message may wait until as much bulk data is copied.
  constexpr std::uint64_t kShare = 128 * 1024;
  LaneReader& lane = link->in(c);
  std::uint64_t bytes = 0;
  bool did = false;
  Frame frame;
  for (int i = 0; i < frames && bytes < kShare; ++i) {
    const LaneReader::Look look = lane.look(frame);
    if (look == LaneReader::Look::kNothing) break;
    did = true;
    const bool widens = look == LaneReader::Look::kFrame && frame.header.type == kWiden;
    if (look == LaneReader::Look::kInvalid || !(widens ? on_widen(c, frame) : on_frame(c, frame))) {
      module().lose_later(*this, Errc::kProtocol);
      return true;
    }
    if (widens) continue;  // `lane` is the full lane now, which does not hold this frame
    return_credit(c);
    lane.take(frame);
    bytes += frame.chunk;
  }
  return flush(c, kShare) || did;
}

bool Peer::on_frame(MessageClass c, const Frame& frame) {
  const FrameHeader& header = frame.header;
  const bool class_fits = header.message_class == c;
  const bool bare = frame.chunk == 0;
  if (header.length > kMaxLength) return false;
  switch (header.type) {
    case FrameType::kReady:
      if ((header.flags & kFlagLocated) != 0) return class_fits && on_announce(frame);
      [[fallthrough]];
    case FrameType::kEager:
    case FrameType::kUnexpected:
    case FrameType::kData:
    case FrameType::kMore: return class_fits && on_message(c, frame);
    case FrameType::kAbort: return class_fits && bare && receiver().abort(incoming_[index_of(c)]);
    case FrameType::kAnnounce: return class_fits && on_announce(frame);
    case FrameType::kWithdraw: return class_fits && bare && control(header);
    case FrameType::kNoData: return bare && control(header);
    case FrameType::kClear:
    case FrameType::kTaken:
    case FrameType::kWithdrawn: return c == MessageClass::kControl && bare && control(header);
  }
  return false;
}

bool Peer::on_message(MessageClass c, const Frame& frame) {
  host_.counters().lane_bytes += frame.chunk;
  protocol::Incoming& incoming = incoming_[index_of(c)];
  if (frame.chunk <= kInlineBytes) {
    return receiver().take(incoming, frame.header, std::as_bytes(std::span(frame.small)).first(frame.chunk));
  }
  const Room payload = link->in(c).payload(frame.chunk);
  return receiver().take(incoming, frame.header, payload.first, payload.second);
}

bool Peer::on_announce(const Frame& frame) {
  std::vector<protocol::Extent> source;
  const bool located = (frame.header.flags & kFlagLocated) != 0;
  if (located ? !locate(frame, source) : frame.chunk != 0) return false;
  return receiver().on_announce(frame.header, std::move(source));
}

/// Finds the message's memory in this side's mappings. `source` stays empty if this side has not mapped it.
bool Peer::locate(const Frame& frame, std::vector<protocol::Extent>& source) {
  if (frame.chunk > kMaxExtents * kExtentSize || frame.chunk % kExtentSize != 0) return false;
  std::array<std::byte, kMaxExtents * kExtentSize> bytes;  // copied once, then parsed
  if (frame.chunk <= kInlineBytes) {
    std::ranges::copy(std::as_bytes(std::span(frame.small)).first(frame.chunk), bytes.begin());
  } else {
    const Room payload = link->in(frame.header.message_class).payload(frame.chunk);
    std::ranges::copy(payload.second, std::ranges::copy(payload.first, bytes.begin()).out);
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
    // The peer passed the arena by the socket before it wrote the frame.
    if (!link->arenas.knows(extent.arena) && !host_.read_notes(*link)) return false;
  }
  const ForeignArenas::Found found = link->arenas.find(extents_, frame.header.length, source);
  if (found == ForeignArenas::Found::kNotMapped) source.clear();
  return found != ForeignArenas::Found::kInvalid;
}

/// The acceptor sends the frame when it has admitted its peer, and the connector answers with one.
bool Peer::on_widen(MessageClass c, const Frame& frame) {
  const bool connector = link->side == Side::kConnector;
  const bool fits = frame.header.message_class == c && frame.chunk == 0 && !incoming_[index_of(c)].active;
  if (!fits || !link->narrow_in(c) || (!connector && link->narrow_out(c))) return false;
  if (connector && !link->has_full_lanes()) (void)host_.read_notes(*link);  // they were sent before the frame
  if (!link->has_full_lanes()) return false;
  link->widen_in(c);
  if (!connector) return true;
  FrameHeader header;
  header.type = kWiden;
  header.message_class = c;
  queue_of(c).push_ahead(header);
  return true;
}

// --- located messages ---

bool Peer::pull(Op& op) {
  pulls_.push_back(op);
  host_.keep_turning(*this);
  return true;
}

bool Peer::stop_pull(Op& op) {
  pulls_.remove(op);
  return true;
}

bool Peer::turn_pulls() {
  constexpr std::uint64_t kShare = 256 * 1024;
  std::uint64_t budget = kShare;
  if (pulls_.empty()) return false;
  while (!pulls_.empty() && budget > 0) {
    Op& op = op_of(*pulls_.front());
    while (op.left > 0 && budget > 0) {
      const protocol::Extent& extent = op.source[op.source_index];
      const std::uint64_t size = std::min(budget, extent.size - op.source_offset);
      op.cursor.copy_in(reinterpret_cast<const std::byte*>(extent.address) + op.source_offset, size);
      op.source_offset += size;
      op.left -= size;
      budget -= size;
      if (op.source_offset < extent.size) continue;
      ++op.source_index;
      op.source_offset = 0;
    }
    if (op.left == 0) pulled(op);
  }
  return true;
}

void Peer::pulled(Op& op) {
  pulls_.remove(op);
  // A sender that gave up on this side, for example after a long stop, says so before it uses its memory again.
  if (!link->still_offered()) {
    module().lose_later(*this, Errc::kConnectionLost);
    return module().finish(op, Errc::kConnectionLost, 0);
  }
  host_.counters().located_bytes += op.arriving;
  receiver().pulled(op);
}

}  // namespace spate::bmi::shm
