// SPDX-License-Identifier: Apache-2.0
// Peer: the protocol between this process and one other: matching, rendezvous, credit. docs/wire-shm.md.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bmi/match_table.h"
#include "bmi/module.h"
#include "bmi/shm/counters.h"
#include "bmi/shm/endpoint.h"
#include "bmi/shm/hello.h"
#include "bmi/shm/link.h"
#include "bmi/shm/op.h"
#include "bmi/shm/send_queue.h"

namespace spate::bmi::shm {

/// The functions of the module that a peer calls, with the module's lock held.
class PeerHost {
 public:
  virtual ~PeerHost() = default;
  /// Reports the operation's end and frees it.
  virtual void completed(ShmOp& op, Errc status, std::uint64_t actual_size) = 0;
  virtual void deliver(Peer& peer, Tag tag, Buffer payload) = 0;
  /// The live operation of that id, or null.
  virtual ShmOp* find_op(OpId id) = 0;
  /// Connects a peer that was looked up.
  virtual void connect(Peer& peer) = 0;
  /// The peer has more work than fits this turn: the module continues in the next turns.
  virtual void keep_turning(Peer& peer) = 0;
  /// Reads the notes that the peer has sent by its socket. False: the peer is lost.
  virtual bool read_notes(Link& link) = 0;
  /// A located send was cancelled: drops the peer unless it answers within the grace period.
  virtual void begin_grace(Peer& peer, ShmOp& op) = 0;
  /// Drops the peer when none of its functions is on the stack.
  virtual void lose_later(Peer& peer, Errc status) = 0;
  virtual const ArenaPool& arenas() const = 0;
  virtual const NetworkOptions& options() const = 0;
  virtual const Limits& local_limits() const = 0;
  virtual ShmCounters& counters() = 0;
};

/// The destination of the current message's payload. Without `op` and `arrived` it is dropped.
struct Incoming {
  bool active = false;
  FrameHeader header;
  std::uint64_t left = 0;            // bytes still to come
  ShmOp* op = nullptr;               // a receive: into its segments
  std::unique_ptr<Arrived> arrived;  // no receive yet: into its payload
};

/// Credit and matching of one message class. "Ours" are the messages that this side sends. Counts of charged bytes
/// begin anew with each link and only grow.
struct ClassState {
  explicit ClassState(std::uint64_t seed) : posted(seed), arrived(seed) {}
  std::uint64_t charged = 0;        // ours
  std::uint64_t returned = 0;       // of it and of what was outstanding before this link: as last read
  std::uint64_t peer_charged = 0;   // the peer's
  std::uint64_t peer_returned = 0;  // of it: given back
  std::uint32_t announced = 0;      // ours, not yet cleared or taken
  std::uint32_t announcements = 0;  // the peer's, without a receive
  std::uint32_t withdrawn = 0;      // ours: withdrawn, but the peer may have cleared them
  MatchTable posted;                // receives
  MatchTable arrived;               // messages without one
  NodeList sends_waiting;           // ours, for room to announce
  SendQueue queue;
  Incoming incoming;
};

/// The state of a peer.
enum class Standing : std::uint8_t {
  kIdle,        // looked up, not connected
  kConnecting,  // its link is being made
  kUp,
  kGone,  // inbound, not connected
};

/// Pinned; the module owns it. Not thread-safe: the module's lock guards it. Life cycle: made by a lookup or by an
/// inbound connection -> opened() -> reset() when the link is lost, and opened() again -> destroyed. reset() completes
/// all operations first.
class Peer final : public SendObserver {
 public:
  Peer(PeerHost& host, PeerId id, std::uint64_t seed);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() override;

  // Posts: `op` is filled in and belongs to this peer. True when it is complete at once.
  bool post_send(ShmOp& op);
  bool post_recv(ShmOp& op);
  /// See Module::send_at_once.
  bool send_at_once(const Post& post, bool unexpected);
  void cancel(ShmOp& op);
  /// The acceptor lets this peer use the full lanes: it is no stranger.
  void widen();
  /// Unexpected messages of `charge` were taken by the caller.
  void consumed(std::uint64_t charge);

  /// The link is ready; `limits`: what the peer lets us do.
  void opened(Link& link, const Limits& limits);
  /// The link is gone: every operation completes with `status`, everything buffered is dropped.
  void reset(Errc status);

  static constexpr int kFramesInATurn = 64;
  /// A turn for one class: takes at most so many frames and writes what waits, some kilobytes at most. True when
  /// anything was done; a protocol error is reported to the host.
  bool turn(MessageClass c, int frames = kFramesInATurn);
  /// Whether turn() would find anything. It is called each turn, and the answer is usually no.
  bool has_turn(MessageClass c) {
    return link->in(c).ready() || !state_of(c).queue.empty() || !unexpected_waiting_.empty();
  }
  bool has_pulls() const { return !pulls_.empty(); }
  /// A turn for the copies out of the peer's memory. True when there were any.
  bool turn_pulls();
  /// Publishes the progress since the last call to the other side, and wakes it if needed.
  void announce_progress();
  /// Whether nothing is left to do before the other side acts. Call it after Link::wait_for(kWakeFrames).
  bool quiet();

  // SendObserver.
  void sent(ShmOp& op) override;
  void failed(ShmOp& op, Errc status) override;
  void widened(MessageClass c) override;

  /// All operations, oldest first.
  ShmOp* first_op() const { return first_op_; }
  /// The oldest cancelled send whose memory the peer may still read, or null.
  ShmOp* first_withdrawing() { return withdrawing_.empty() ? nullptr : &op_of(*withdrawing_.front()); }
  void link_op(ShmOp& op);
  void unlink_op(ShmOp& op);
  /// The limits for the peer on its new link: less than the full window while the caller has not taken the messages of
  /// the last one. Resets the counts.
  Limits grant_limits();

  const PeerId id;
  Address address;  // inbound: set when the core gave it, by the thread that delivers
  bool outbound = false;
  Standing state = Standing::kIdle;
  std::string url;
  Endpoint remote;         // outbound
  bool attempted = false;  // to connect, ever
  std::string failure;     // why the last attempt failed; empty when it did not
  LinkId link_id{};
  ContextId context;  // inbound: of the listener
  std::uint32_t connections = 0;
  Link* link = nullptr;   // open, or the attempt (kConnecting)
  bool stranger = false;  // inbound, not admitted: NetworkOptions::strangers bounds what it may do

 private:
  ClassState& state_of(MessageClass c) { return classes_[index_of(c)]; }

  // Sending: peer_send.cc.
  void begin_send(ShmOp& op);
  bool send_unexpected(ShmOp& op);
  bool send_expected(ShmOp& op);
  bool offer(ShmOp& op);
  void announce(ShmOp& op);
  bool charge(ShmOp& op);
  bool charge(MessageClass message_class, std::uint64_t cost, bool unexpected);
  std::uint64_t credit(ClassState& state, MessageClass c);
  void transmit(ShmOp& op, FrameType type);
  void answer(FrameType type, MessageClass c, std::uint64_t id);
  void push(FrameHeader header, ShmOp* op);
  void run_waiting();
  void finish(ShmOp& op, Errc status, std::uint64_t actual_size);
  void cancel_sending(ShmOp& op);
  void cancel_announced(ShmOp& op);
  bool flush(MessageClass c, std::uint64_t budget);
  void flush_both();

  // Receiving: peer_receive.cc.
  bool on_frame(MessageClass c, const Frame& frame);
  bool on_widen(MessageClass c, const Frame& frame);
  bool on_message(MessageClass c, const Frame& frame);
  bool on_begin(MessageClass c, const FrameHeader& header);
  void take_payload(MessageClass c, const Frame& frame);
  void on_whole(MessageClass c);
  bool on_abort(MessageClass c);
  bool on_announce(MessageClass c, const Frame& frame);
  bool on_clear(const FrameHeader& header);
  bool on_data(MessageClass c, const FrameHeader& header);
  bool on_no_data(const FrameHeader& header);
  void on_withdraw(const FrameHeader& header);
  bool on_taken(const FrameHeader& header);
  bool on_withdrawn(const FrameHeader& header);
  void receive_into(Incoming& incoming, ShmOp& op);
  void clear(ShmOp& op, const Arrived& arrived);
  void match_or_post(ShmOp& op);
  void put_back(ShmOp& op);
  void take_arrived(ShmOp& op, std::unique_ptr<Arrived> arrived);
  bool locate(const Frame& frame, Arrived& arrived);
  void pull(ShmOp& op, const Arrived& arrived);
  void pulled(ShmOp& op);
  bool charge_peer(ClassState& state, std::uint64_t cost);
  void give_back(MessageClass c, std::uint64_t cost);

  PeerHost& host_;
  const std::uint64_t seed_;
  Limits remote_;
  std::array<ClassState, kClasses> classes_;
  NodeList waiting_;             // for the link, in the order of their posts
  NodeList unexpected_waiting_;  // for credit
  NodeList withdrawing_;
  NodeList pulls_;
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  std::uint64_t frames_announced_ = 0;  // of those written, the other side was woken for
  bool returned_any_ = false;           // credit, since the other side was last woken for it
  std::uint64_t undelivered_ = 0;       // charge of unexpected messages that the caller has not taken
  std::vector<Extent> extents_;         // scratch
  std::vector<Segment> segments_;       // scratch
  ShmOp* first_op_ = nullptr;
  ShmOp* last_op_ = nullptr;
};

}  // namespace spate::bmi::shm
