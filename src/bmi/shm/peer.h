// SPDX-License-Identifier: Apache-2.0
// Peer: how the protocol between this process and one other goes over a link. docs/wire-shm.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bmi/protocol/frame_queue.h"
#include "bmi/protocol/module_state.h"
#include "bmi/protocol/peer_base.h"
#include "bmi/shm/counters.h"
#include "bmi/shm/endpoint.h"
#include "bmi/shm/link.h"

namespace spate::bmi::shm {

using protocol::Limits;
using protocol::LinkId;
using protocol::Op;
using protocol::op_of;
using protocol::PeerPhase;

/// The functions of the module that a peer calls, with the module's lock held.
class PeerHost {
 public:
  virtual ~PeerHost() = default;
  /// Connects a peer that was looked up.
  virtual void connect(Peer& peer) = 0;
  /// The peer has more work than fits this turn: the module continues in the next turns.
  virtual void keep_turning(Peer& peer) = 0;
  /// Reads the notes that the peer has sent by its socket. False: the peer is lost.
  virtual bool read_notes(Link& link) = 0;
  /// A located send was cancelled: drops the peer unless it answers within the grace period.
  virtual void begin_grace(Peer& peer, Op& op) = 0;
  virtual void unauthenticated_asked(Peer& peer) = 0;
  virtual const ArenaPool& arenas() const = 0;
  virtual ShmCounters& counters() = 0;
};

/// See protocol::PeerBase. Life cycle: made by a lookup or by an inbound connection -> connected() -> disconnected(),
/// and connected() again -> destroyed.
class Peer final : public protocol::PeerBase {
 public:
  Peer(PeerHost& host, protocol::ModuleState& module, PeerId id, std::uint64_t seed)
      : protocol::PeerBase(module, id, seed), host_(host) {}

  /// See Module::send_at_once.
  bool send_at_once(const Post& post, bool unexpected);
  /// Lets this peer, which is admitted, use the full lanes. Only for the acceptor.
  void widen();
  /// Gives back the credit of what the caller took, and wakes the peer if it waits for it.
  void give_back_now();

  /// The link is ready. `limits`: what the peer allows this side.
  void connected(Link& link, const Limits& limits);
  void disconnected(Errc status);
  /// See Receiver::grant.
  Limits grant_limits();

  static constexpr int kFramesInATurn = 64;
  /// A turn for one class: takes at most `frames` frames and writes what waits, about 128 KiB at most in each
  /// direction. True if anything was done. A peer that breaks the protocol is marked as lost.
  bool turn(MessageClass c, int frames = kFramesInATurn);
  /// Whether turn() would find anything. Called in each turn; the answer is usually no.
  bool has_turn(MessageClass c) {
    return link->in(c).ready() || !queues_[index_of(c)].empty() || sender().waits_for_credit();
  }
  bool has_pulls() const { return !pulls_.empty(); }
  /// A turn for copies out of the peer's memory. True if there were any.
  bool turn_pulls();
  /// Publishes the progress since the last call to the other side, and wakes it if it waits for that.
  void announce_progress();
  /// Whether there is nothing to do until the other side acts. Call it after Link::wait_for(kWakeFrames).
  bool quiet();

  Endpoint remote;       // of an outbound peer
  Link* link = nullptr;  // the open link, or the attempt to connect (kConnecting)

 private:
  class QueueWriter;

  // Path.
  void push(const FrameHeader& header, Op* op) override { queue_of(header.message_class).push(header, op); }
  void answer(const FrameHeader& header) override { queue_of(MessageClass::kControl).push(header, nullptr); }
  bool offer(Op& op, const FrameHeader& header) override;
  protocol::Withdrawn withdraw(Op& op, const FrameHeader* instead) override {
    return queue_of(op.message_class).withdraw(op, instead);
  }
  void flush_posted(MessageClass c) override;
  void flush_all() override;
  std::uint64_t fetch_credit(MessageClass c, bool sleeps) override;
  void want(MessageClass c) override;
  bool pull(Op& op) override;
  bool stop_pull(Op& op) override;
  void grace(Op& op) override { host_.begin_grace(*this, op); }
  void unauthenticated_asked() override { host_.unauthenticated_asked(*this); }

  protocol::FrameQueue& queue_of(MessageClass c) { return queues_[index_of(c)]; }
  bool on_frame(MessageClass c, const Frame& frame);
  bool on_message(MessageClass c, const Frame& frame);
  bool on_announce(const Frame& frame);
  bool on_widen(MessageClass c, const Frame& frame);
  bool locate(const Frame& frame, std::vector<protocol::Extent>& source);
  bool flush(MessageClass c, std::uint64_t budget);
  void return_credit(MessageClass c);
  void pulled(Op& op);

  PeerHost& host_;
  std::array<protocol::FrameQueue, kClasses> queues_;
  std::array<protocol::Incoming, kClasses> incoming_;
  NodeList pulls_;
  // Counts of bytes. They begin with zero for each link and only grow.
  std::array<std::uint64_t, kClasses> returned_{};  // credit that this side has given back
  std::array<std::uint64_t, kClasses> fetched_{};   // credit that the peer has given back
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  std::uint64_t frames_announced_ = 0;  // how many of the written frames the other side was woken for
  bool returned_any_ = false;           // credit was given back since the other side was last woken for it
  std::vector<Extent> extents_;         // scratch
};

}  // namespace spate::bmi::shm
