// SPDX-License-Identifier: Apache-2.0
// Peer: how the protocol between this process and one other goes over a wire. docs/wire-ofi.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "bmi/ofi/counters.h"
#include "bmi/ofi/packet.h"
#include "bmi/ofi/url.h"
#include "bmi/ofi/wire.h"
#include "bmi/protocol/frame_queue.h"
#include "bmi/protocol/module_state.h"
#include "bmi/protocol/peer_base.h"

namespace spate::bmi::ofi {

using protocol::Op;
using protocol::op_of;
using protocol::OpState;
using protocol::PeerPhase;

class Peer;

/// The functions of the module that a peer calls, with the module's lock held.
class PeerHost {
 public:
  virtual ~PeerHost() = default;
  /// Connects a peer that was looked up.
  virtual void connect(Peer& peer) = 0;
  /// The peer has more work, which no completion announces: the module continues in the next turns.
  virtual void keep_turning(Peer& peer) = 0;
  /// The time until which the peer or the device may still use a cancelled operation's memory.
  virtual MonoTime begin_grace() = 0;
  /// Processes the reports of pages that went away. Called before each use of a registration.
  virtual void look_at_pages() = 0;
  virtual void unauthenticated_asked(Peer& peer) = 0;
  virtual OfiCounters& counters() = 0;
};

/// See protocol::PeerBase. Life cycle: made by a lookup or by a hello -> connected() -> disconnected() at the end of
/// the session, and connected() again -> destroyed. Operations whose memory the device still uses complete after
/// disconnected().
///
/// Sending (peer_send.cc) and reading (peer_read.cc) are chapters of one class: a packet that comes begins reads, a
/// read that ends is answered by a packet, and both work on the operations, the wire and the route of the session.
class Peer final : public protocol::PeerBase {
 public:
  Peer(PeerHost& host, protocol::ModuleState& module, PeerId id, std::uint64_t seed)
      : protocol::PeerBase(module, id, seed), host_(host) {}
  /// All peers of the module are of this class.
  static Peer& of(const Op& op) { return static_cast<Peer&>(*op.peer); }

  /// See Module::send_at_once.
  bool send_at_once(const Post& post, bool unexpected);

  /// The session begins. `wire`, `route` and remote_session are set. `limits`: what the peer allows this side.
  void connected(const Limits& limits);
  /// The session ends. Every operation completes with `status`, now or when the device no longer uses its memory.
  /// Buffered messages are dropped, and the route is closed.
  void disconnected(Errc status);

  /// A packet of this session. False: the protocol does not allow it.
  bool on_packet(const Packet& packet);
  /// A read for one of the operations has ended. The peer may have another wire by now.
  void on_read(Op& op, bool good);
  /// Writes what waits and begins reads, as far as there is room. True when anything was done.
  bool turn();
  /// The endpoint is closed: no read is in flight any more.
  void reads_are_over();
  /// Sends a packet that has no payload and belongs to no operation.
  void say(FrameType type);
  /// Sends the session's last packet in place of the one that the provider has not taken yet.
  void say_bye();

  /// The earliest deadline by which the peer or the device must have released a cancelled operation.
  MonoTime grace_of_withdrawn() const {
    return sender().first_withdrawing() == nullptr ? MonoTime::never() : sender().first_withdrawing()->deadline;
  }
  MonoTime grace_of_reads() const { return ending_.empty() ? MonoTime::never() : op_of(*ending_.front()).deadline; }
  /// See Receiver::grant.
  Limits grant_limits();
  /// Whether work is left that waits for room or for the provider.
  bool has_work() const;

  Target remote;                 // of an outbound peer
  bool on_new_endpoint = false;  // the old endpoint could not reach the peer in this attempt to connect
  Wire* wire = nullptr;
  Route* route = nullptr;
  std::uint64_t local_session = 0;           // the number in the packets that the peer sends
  std::uint64_t remote_session = 0;          // the number in the packets that this side sends
  MonoTime give_up = MonoTime::never();      // kConnecting
  MonoTime hello_again = MonoTime::never();  // kConnecting: when to send the hello again; the last one may have been
                                             // lost on an older connection
  Limits granted;                            // inbound: what this side allows the peer
  bool answered = false;                     // inbound: the peer has sent something after its hello
  MonoTime admit_by;                         // the deadline for an unauthenticated peer to be admitted
  MonoTime heard;                            // when the peer last sent something, by the clock of the last sweep
  bool spoke = false;                        // the peer has sent something since then
  unsigned pings = 0;                        // pings sent since then
  MonoTime stuck_since = MonoTime::never();  // since when nothing could be sent
  UniqueFd process;                          // shm: becomes readable when the peer's process ends
  bool doomed = false;                       // the peer has broken the protocol, and the rest of its session is ignored
  bool turning = false;                      // in the module's list

 private:
  class QueueWriter;

  // Path.
  void push(const protocol::Header& header, Op* op) override { queue_of(header.message_class).push(header, op); }
  void answer(const protocol::Header& header) override { queue_of(MessageClass::kControl).push(header, nullptr); }
  bool offer(Op& op, const protocol::Header& header) override;
  protocol::Withdrawn withdraw(Op& op, const protocol::Header* instead) override {
    return queue_of(op.message_class).withdraw(op, instead);
  }
  void flush_posted(MessageClass /*c*/) override { flush(); }
  void flush_all() override { turn(); }
  void want(MessageClass c) override;
  bool pull(Op& op) override;
  bool stop_pull(Op& op) override;
  void grace(Op& op) override;
  void unauthenticated_asked() override { host_.unauthenticated_asked(*this); }

  protocol::FrameQueue& queue_of(MessageClass c) { return queues_[index_of(c)]; }
  bool on_announce(const Packet& packet);

  // Sending: peer_send.cc.
  MutableByteView room(MessageClass c);
  void publish(const protocol::Header& header, std::size_t payload);
  void return_credit();
  bool flush();
  bool better_copied(const Op& op);
  bool pin(Op& op);

  // Reading: peer_read.cc.
  bool begin_reads();
  Wire::Begun begin_read(Op& op);
  void end_later(Op& op, Errc status);

  PeerHost& host_;
  std::array<protocol::FrameQueue, kClasses> queues_;
  std::array<protocol::Incoming, kClasses> incoming_;
  PacketBuffer* buffer_ = nullptr;  // taken by room()
  NodeList pulls_;                  // operations that have reads to begin
  NodeList ending_;                 // operations in kHeld: they have reads in flight whose data nobody wants any more
  std::uint32_t reads_ = 0;
  std::vector<Extent> extents_;  // scratch
};

}  // namespace spate::bmi::ofi
