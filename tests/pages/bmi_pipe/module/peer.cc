// SPDX-License-Identifier: Apache-2.0
#include "bmi/pipe/peer.h"

#include <algorithm>
#include <cerrno>

#include "base/local_packet.h"

namespace spate::bmi::pipe {
namespace {

using protocol::FrameType;
using protocol::Header;

/// The most bytes of messages that one call sends, so that no other thread waits long for the lock.
constexpr std::uint64_t kTurnBytes = 256 * 1024;

}  // namespace

/// Writes frames into packets, each of which it sends at once.
class Peer::Writer {
 public:
  explicit Writer(Peer& peer) : peer_(peer), link_(*peer.link) {}

  bool room(std::uint64_t wanted, bool message, protocol::Room& room) {
    if (!sent_out() || (message && sent_bytes_ >= kTurnBytes)) return false;
    const std::uint64_t payload = std::min<std::uint64_t>(wanted, kMaxPayload);
    if (message) sent_bytes_ += payload;
    link_.out.resize(kHeaderSize + payload);
    room.first = MutableByteView(link_.out).subspan(kHeaderSize);
    return true;
  }

  void publish(const Header& header, std::uint64_t /*payload*/) {
    Frame frame{header, {}};
    for (std::size_t c = 0; c < kClasses; ++c) frame.credit[c] = peer_.receiver().take_owed(MessageClass(c));
    std::ranges::copy(encode(frame), link_.out.begin());
    link_.stuck = true;
    (void)sent_out();
  }

  /// Sends the packet that is whole, if there is one. False: the socket has no room for it.
  bool sent_out() {
    if (!link_.stuck) return true;
    const int failed = send_local_packet(link_.socket.get(), link_.out, {});
    link_.stuck = failed != 0;
    // If the other side has closed the link, its last packets can still be read, and the end comes after them.
    if (failed != 0 && failed != EAGAIN && failed != EPIPE && failed != ECONNRESET)
      peer_.module().lose_later(peer_, Errc::kConnectionLost);
    return failed == 0;
  }

 private:
  Peer& peer_;
  Link& link_;
  std::uint64_t sent_bytes_ = 0;
};

// --- the life of a link ---

void Peer::connected(const protocol::Limits& limits) {
  up(limits);
  opened(MessageClass::kControl);
  opened(MessageClass::kBulk);
  flush_all();
}

void Peer::disconnected(Errc status) {
  link = nullptr;
  queues_ = {};
  incoming_ = {};
  reset(status);
}

// --- what goes out ---

void Peer::flush_all() {
  protocol::FrameQueue& control = queue_of(MessageClass::kControl);
  protocol::FrameQueue& bulk = queue_of(MessageClass::kBulk);
  const bool owes = receiver().owes_much(MessageClass::kControl) || receiver().owes_much(MessageClass::kBulk);
  if (owes && control.empty()) {
    Header header;
    header.type = kCredit;
    control.push(header, nullptr);
  }
  Writer writer(*this);
  const bool all_sent = writer.sent_out() && control.flush(writer, sender()) && bulk.flush(writer, sender());
  host_.watch_room(*link, !all_sent || link->stuck);
  if (control.too_many_answers() || bulk.too_many_answers()) module().lose_later(*this, Errc::kProtocol);
}

// --- what comes in, which another process wrote ---

bool Peer::on_packet(ByteView packet) {
  const std::optional<Frame> frame = decode_frame(packet);
  if (!frame) return false;
  for (std::size_t c = 0; c < kClasses; ++c) {
    if (frame->credit[c] != 0 && !sender().give(MessageClass(c), frame->credit[c])) return false;
  }
  return on_frame(frame->header, packet.subspan(kHeaderSize));
}

bool Peer::on_frame(const Header& header, ByteView payload) {
  protocol::Incoming& incoming = incoming_[protocol::index_of(header.message_class)];
  const bool bare = payload.empty();
  // No message of this module is located, so kClear is the only frame with a flag.
  if (header.flags != 0 && (header.type != FrameType::kClear || header.flags != protocol::kFlagTooBig)) return false;
  switch (header.type) {
    case FrameType::kEager:
    case FrameType::kUnexpected:
    case FrameType::kReady:
    case FrameType::kData:
    case FrameType::kMore: return receiver().take(incoming, header, payload);
    case FrameType::kAbort: return bare && receiver().abort(incoming);
    case FrameType::kAnnounce: return bare && receiver().on_announce(header, {});
    case FrameType::kClear:
    case FrameType::kWithdraw:
    case FrameType::kNoData: return bare && control(header);
    default: return bare && header.type == kCredit;
  }
}

}  // namespace spate::bmi::pipe
