// SPDX-License-Identifier: Apache-2.0
// Peer: the protocol between this process and one other: matching, rendezvous, credit. docs/wire-ofi.md.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "bmi/match_table.h"
#include "bmi/module.h"
#include "bmi/ofi/counters.h"
#include "bmi/ofi/op.h"
#include "bmi/ofi/packet.h"
#include "bmi/ofi/send_queue.h"
#include "bmi/ofi/url.h"
#include "bmi/ofi/wire.h"
#include "bmi/protocol/credit.h"

namespace spate::bmi::ofi {

/// The functions of the module that a peer calls, with the module's lock held.
class PeerHost {
 public:
  virtual ~PeerHost() = default;
  /// Reports the operation's end and frees it.
  virtual void completed(OfiOp& op, Errc status, std::uint64_t actual_size) = 0;
  virtual void deliver(Peer& peer, Tag tag, Buffer payload) = 0;
  /// The live operation of that id, or null.
  virtual OfiOp* find_op(OpId id) = 0;
  /// Connects a peer that was looked up.
  virtual void connect(Peer& peer) = 0;
  /// The peer has more work, which no completion announces: the module continues in the next turns.
  virtual void keep_turning(Peer& peer) = 0;
  /// The time until which the peer or the device may still use a cancelled operation's memory.
  virtual MonoTime begin_grace() = 0;
  /// Drops the peer when none of its functions is on the stack.
  virtual void lose_later(Peer& peer, Errc status) = 0;
  /// Processes the reports of pages that went away. Called before each use of a registration.
  virtual void look_at_pages() = 0;
  virtual const NetworkOptions& options() const = 0;
  virtual const Limits& local_limits() const = 0;
  virtual OfiCounters& counters() = 0;
};

/// The destination of the current message's payload. Without `op` and `arrived` it is dropped.
struct Incoming {
  bool active = false;
  PacketHeader header;
  std::uint64_t left = 0;            // bytes still to come
  OfiOp* op = nullptr;               // a receive: into its segments
  std::unique_ptr<Arrived> arrived;  // no receive yet: into its payload
};

/// Credit and matching of one message class. "Ours" are the messages that this side sends.
struct ClassState {
  explicit ClassState(std::uint64_t seed) : posted(seed), arrived(seed) {}
  protocol::SendCredit ours;
  protocol::ReceiveCredit theirs;
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
  kConnecting,  // its hello was sent
  kUp,
  kGone,  // inbound, not connected
};

/// Pinned; the module owns it. Not thread-safe: the module's lock guards it. Life cycle: made by a lookup or by a hello
/// -> opened() -> reset() at the end of the session, and opened() again -> destroyed. Operations whose memory the
/// device still uses complete after reset().
class Peer final : public SendObserver, private PacketWriter {
 public:
  Peer(PeerHost& host, PeerId id, std::uint64_t seed);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() override;

  // Posts: `op` is filled in and belongs to this peer. True when it is complete at once.
  bool post_send(OfiOp& op);
  bool post_recv(OfiOp& op);
  /// See Module::send_at_once.
  bool send_at_once(const Post& post, bool unexpected);
  void cancel(OfiOp& op);
  /// Unexpected messages of `charge` were taken by the caller.
  void consumed(std::uint64_t charge);

  /// The session begins. `wire`, `route` and remote_session are set. `limits`: what the peer allows this side.
  void opened(const Limits& limits);
  /// The session ends. Every operation completes with `status`, now or when the device no longer uses its memory.
  /// Buffered messages are dropped, and the route is closed.
  void reset(Errc status);

  /// A packet of this session. False: the protocol does not allow it.
  bool on_packet(const Packet& packet);
  /// A read into one of the operations has ended; its wire may be another one by now.
  void on_read(OfiOp& op, bool good);
  /// Writes what waits and begins reads, as far as there is room. True when anything was done.
  bool turn();
  /// The endpoint is closed: no read is in flight any more.
  void reads_are_over();
  /// A packet of a type that has no payload and belongs to no operation.
  void say(PacketType type);
  /// The session's last packet, in place of what the provider has not taken yet.
  void say_bye();

  // SendObserver.
  void sent(OfiOp& op) override;
  void failed(OfiOp& op, Errc status) override;

  /// All operations, oldest first.
  OfiOp* first_op() const { return first_op_; }
  /// The earliest deadline by which the peer or the device must have released a cancelled operation.
  MonoTime grace_of_withdrawn() const { return deadline_of(withdrawing_); }
  MonoTime grace_of_reads() const { return deadline_of(ending_); }
  void link_op(OfiOp& op);
  void unlink_op(OfiOp& op);
  /// The limits for the peer in its new session: less than the full window while the caller has not taken the messages
  /// of the last one. Resets the counts.
  Limits grant_limits();
  /// Whether work is left that waits for room or for the provider.
  bool has_work() const;

  const PeerId id;
  Address address;  // inbound: set when the core gave it, by the thread that delivers
  bool outbound = false;
  Standing state = Standing::kIdle;
  std::string url;
  Target remote;                 // outbound
  bool attempted = false;        // to connect, ever
  bool on_new_endpoint = false;  // the old one could not reach it in this attempt to connect
  std::string failure;           // why the last attempt failed; empty when it did not
  LinkId link_id{};
  ContextId context;  // inbound: of the listener
  std::uint32_t connections = 0;
  Wire* wire = nullptr;
  Route* route = nullptr;
  std::uint64_t local_session = 0;           // what its packets carry
  std::uint64_t remote_session = 0;          // what ours carry
  MonoTime give_up = MonoTime::never();      // kConnecting
  MonoTime hello_again = MonoTime::never();  // kConnecting: the last one may have gone the way of an older connection
  Limits granted;                            // inbound: what this side lets it do
  bool answered = false;                     // inbound: it has sent something after its hello
  bool stranger = false;                     // inbound, not admitted: NetworkOptions::strangers bounds what it may do
  MonoTime admit_by;                         // a stranger; else it is dropped
  MonoTime heard;                            // of it, last, as the last look at the clock knows
  bool spoke = false;                        // since then
  unsigned pings = 0;                        // since then
  MonoTime stuck_since = MonoTime::never();  // nothing could be sent
  UniqueFd process;                          // shm: its end is the peer's
  bool doomed = false;                       // it has broken the protocol: the rest of this session is ignored
  bool turning = false;                      // in the module's list

 private:
  ClassState& state_of(MessageClass c) { return classes_[index_of(c)]; }

  // PacketWriter.
  MutableByteView room() override;
  void publish(const PacketHeader& header, std::size_t payload) override;

  // Sending: peer_send.cc.
  void begin_send(OfiOp& op);
  bool send_unexpected(OfiOp& op);
  bool send_expected(OfiOp& op);
  bool offer(OfiOp& op);
  bool better_copied(const OfiOp& op);
  bool pin(OfiOp& op);
  void announce(OfiOp& op);
  bool charge(OfiOp& op);
  bool charge(MessageClass message_class, std::uint64_t cost, bool unexpected);
  void transmit(OfiOp& op, PacketType type);
  void answer(PacketType type, MessageClass c, std::uint64_t id);
  void push(const PacketHeader& header, OfiOp* op);
  void run_waiting();
  void finish(OfiOp& op, Errc status, std::uint64_t actual_size);
  void cancel_sending(OfiOp& op);
  void cancel_announced(OfiOp& op);
  bool flush();

  // Receiving: peer_receive.cc.
  bool take_credit(const PacketHeader& header);
  bool on_message(const Packet& packet);
  bool on_begin(const PacketHeader& header);
  void take_payload(MessageClass c, ByteView payload);
  void on_whole(MessageClass c);
  bool on_abort(MessageClass c);
  bool on_announce(const Packet& packet);
  bool on_clear(const PacketHeader& header);
  bool on_data(const PacketHeader& header);
  bool on_no_data(const PacketHeader& header);
  void on_withdraw(const PacketHeader& header);
  bool on_taken(const PacketHeader& header);
  bool on_withdrawn(const PacketHeader& header);
  void receive_into(Incoming& incoming, OfiOp& op);
  void clear(OfiOp& op, const Arrived& arrived);
  void match_or_post(OfiOp& op);
  void put_back(OfiOp& op);
  void take_arrived(OfiOp& op, std::unique_ptr<Arrived> arrived);
  void give_back(MessageClass c, std::uint64_t cost);

  // Reading: peer_read.cc.
  void pull(OfiOp& op, const Arrived& arrived);
  bool begin_reads();
  Wire::Begun begin_read(OfiOp& op);
  void cancel_pulling(OfiOp& op);
  void end_later(OfiOp& op, Errc status);
  void pulled(OfiOp& op);
  static MonoTime deadline_of(const NodeList& list);

  PeerHost& host_;
  const std::uint64_t seed_;
  Limits remote_;
  std::array<ClassState, kClasses> classes_;
  MessageClass writing_ = MessageClass::kControl;  // whose queue is being flushed
  Slot* slot_ = nullptr;                           // taken by room()
  NodeList waiting_;                               // for the session, in the order of their posts
  NodeList unexpected_waiting_;                    // for credit
  NodeList withdrawing_;
  NodeList pulls_;   // with reads still to begin
  NodeList ending_;  // with reads in flight whose data is no longer wanted
  std::uint32_t reads_ = 0;
  std::uint64_t undelivered_ = 0;  // charge of unexpected messages that the caller has not taken
  std::vector<Extent> extents_;    // scratch
  OfiOp* first_op_ = nullptr;
  OfiOp* last_op_ = nullptr;
};

}  // namespace spate::bmi::ofi
