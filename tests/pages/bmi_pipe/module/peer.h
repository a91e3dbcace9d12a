// SPDX-License-Identifier: Apache-2.0
// Link: one connection. Peer: how the protocol between this process and one other goes over a link.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "bmi/pipe/endpoint.h"
#include "bmi/pipe/packet.h"
#include "bmi/protocol/frame_queue.h"
#include "bmi/protocol/peer_base.h"

namespace spate::bmi::pipe {

class Peer;

/// What an event of the epoll set points at.
struct Source {
  enum class Kind : std::uint8_t { kLink, kListener, kTimer };
  explicit Source(Kind its_kind) : kind(its_kind) {}
  const Kind kind;
};

/// A socket and the packet that waits to leave by it. The module's lock guards it.
struct Link : Source {
  explicit Link(UniqueFd its_socket) : Source(Kind::kLink), socket(std::move(its_socket)) {}

  UniqueFd socket;       // empty: the link is closed
  Peer* peer = nullptr;  // null: accepted, and the other side has not said hello
  std::string remote;    // for the log
  ContextId context;     // accepted links: of the listener
  MonoTime accepted_at;
  MonoTime deadline = MonoTime::never();
  bool watches_room = false;  // whether epoll reports room in the socket
  Bytes out;                  // the packet that is being written
  bool stuck = false;         // `out` is whole, and the socket had no room for it
};

/// The functions of the module that a peer calls, with the module's lock held.
class PeerHost {
 public:
  virtual ~PeerHost() = default;
  /// Connects a peer that was looked up.
  virtual void connect(Peer& peer) = 0;
  /// Has epoll report room in the socket, or no longer.
  virtual void watch_room(Link& link, bool watch) = 0;
  virtual void unauthenticated_asked(Peer& peer) = 0;
};

/// See protocol::PeerBase. Life cycle: made by a lookup or by an inbound connection -> connected() -> disconnected(),
/// and connected() again -> destroyed.
class Peer final : public protocol::PeerBase {
 public:
  Peer(PeerHost& host, protocol::ModuleState& module, PeerId id, std::uint64_t seed)
      : protocol::PeerBase(module, id, seed), host_(host) {}

  /// Both sides have said hello. `limits`: what the peer allows this side.
  void connected(const protocol::Limits& limits);
  void disconnected(Errc status);
  /// A packet came. False: the peer broke the protocol.
  bool on_packet(ByteView packet);
  /// Sends what is queued, as far as the socket has room.
  void flush_all() override;

  Endpoint remote;       // of an outbound peer
  Link* link = nullptr;  // the open link, or the attempt to connect (kConnecting)

 private:
  class Writer;

  // Path.
  void push(const protocol::Header& header, protocol::Op* op) override {
    queue_of(header.message_class).push(header, op);
  }
  void answer(const protocol::Header& header) override { queue_of(MessageClass::kControl).push(header, nullptr); }
  protocol::Withdrawn withdraw(protocol::Op& op, const protocol::Header* instead) override {
    return queue_of(op.message_class).withdraw(op, instead);
  }
  void flush_posted(MessageClass /*c*/) override { flush_all(); }
  void want(MessageClass /*c*/) override {
    if (state == protocol::PeerPhase::kIdle) host_.connect(*this);
  }
  void grace(protocol::Op& /*op*/) override {}  // a cancelled send ends at once, because frames are copies
  void unauthenticated_asked() override { host_.unauthenticated_asked(*this); }

  protocol::FrameQueue& queue_of(MessageClass c) { return queues_[protocol::index_of(c)]; }
  bool on_frame(const protocol::Header& header, ByteView payload);

  PeerHost& host_;
  std::array<protocol::FrameQueue, kClasses> queues_;
  std::array<protocol::Incoming, kClasses> incoming_;
};

}  // namespace spate::bmi::pipe
