// SPDX-License-Identifier: Apache-2.0
// Peer: the protocol between this process and one other: matching, rendezvous, credit. docs/wire-tcp.md.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bmi/match_table.h"
#include "bmi/module.h"
#include "bmi/protocol/credit.h"
#include "bmi/tcp/connection.h"
#include "bmi/tcp/counters.h"
#include "bmi/tcp/endpoint.h"
#include "bmi/tcp/hello.h"
#include "bmi/tcp/op.h"

namespace spate::bmi::tcp {

/// The functions of the module that a peer calls, with the module's lock held.
class PeerHost {
 public:
  virtual ~PeerHost() = default;
  /// Reports the operation's end and frees it.
  virtual void completed(TcpOp& op, Errc status, std::uint64_t actual_size) = 0;
  virtual void deliver(Peer& peer, Tag tag, Buffer payload) = 0;
  /// The live operation of that id, or null.
  virtual TcpOp* find_op(OpId id) = 0;
  /// Connects the control connection, or the bulk connections, of a peer that was looked up.
  virtual void connect_control(Peer& peer) = 0;
  virtual void connect_bulk(Peer& peer) = 0;
  /// Writes the queued frames, as far as the socket accepts them.
  virtual void flush(Connection& connection) = 0;
  /// A cancelled send has begun to leave: drops the peer unless the frame has left within the grace period.
  virtual void begin_grace(Connection& connection, const TcpOp& op) = 0;
  /// Whether to lend memory to the kernel on bulk connections to this peer.
  virtual bool lends(const Peer& peer) const = 0;
  virtual const NetworkOptions& options() const = 0;
  virtual const Limits& local_limits() const = 0;
  virtual TcpCounters& counters() = 0;
};

/// One way to the peer, and the operations that wait for it.
struct Channel {
  Connection* connection = nullptr;  // open (handshake done), or null
  Connection* opening = nullptr;     // this side's attempt, until it is open
  NodeList waiting;                  // in the order of their posts
};

/// Credit and matching of one message class. "Ours" are the messages that this side sends.
struct ClassState {
  explicit ClassState(std::uint64_t seed) : posted(seed), arrived(seed) {}
  protocol::SendCredit ours;
  protocol::ReceiveCredit theirs;
  std::uint32_t announced = 0;      // ours, not yet cleared
  std::uint32_t announcements = 0;  // the peer's, not yet cleared
  std::uint32_t withdrawn = 0;      // ours: withdrawn, but the peer may have cleared them
  MatchTable posted;                // receives
  MatchTable arrived;               // messages without one
  NodeList sends_waiting;           // ours, for room to announce
};

/// The state of a peer.
enum class Standing : std::uint8_t {
  kIdle,        // looked up, not connected
  kConnecting,  // its control connection is being made
  kUp,
  kGone,  // inbound, not connected
};

/// Pinned; the module owns it. Not thread-safe: the module's lock guards it. Life cycle: made by a lookup or by an
/// inbound connection -> opened() -> reset() when the connections are lost, and opened() again -> destroyed. reset()
/// completes all operations first.
class Peer final : public FrameHandler, public SendObserver {
 public:
  Peer(PeerHost& host, PeerId id, std::uint64_t seed);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() override;

  // Posts: `op` is filled in and belongs to this peer. True when it is complete at once.
  bool post_send(TcpOp& op);
  bool post_recv(TcpOp& op);
  void cancel(TcpOp& op);
  /// Unexpected messages of `charge` were taken by the caller.
  void consumed(std::uint64_t charge);

  /// A connection of this peer has said hello; `limits`: what the peer lets us do (control connection).
  void opened(Connection& connection, const Limits& limits);
  /// The connections are gone: every operation completes with `status`, everything buffered is dropped.
  void reset(Errc status);

  // FrameHandler, SendObserver.
  std::size_t header_size() const override { return kHeaderSize; }
  bool on_header(Connection& connection, const std::byte* bytes) override;
  void on_payload(Connection& connection) override;
  void sent(TcpOp& op) override;
  void told(OpId op) override;

  /// Whether a bulk connection is open, or this side is opening one.
  bool has_bulk() const;
  /// Whether nothing is posted, buffered or in flight in either direction.
  bool at_rest() const;
  /// Bytes that its open connections have carried. A change means that the peer is in use.
  std::uint64_t traffic() const;

  /// Writes out whatever handling frames has queued.
  void flush_all();
  /// All operations, oldest first.
  TcpOp* first_op() const { return first_op_; }
  void link(TcpOp& op);
  void unlink(TcpOp& op);
  /// The limits for the peer on its new connections: less than the full window while the caller has not taken the
  /// messages of the last ones. Resets the count.
  Limits grant_limits();

  const PeerId id;
  Address address;  // inbound: set when the core gave it, by the thread that delivers
  bool outbound = false;
  Standing state = Standing::kIdle;
  std::string url;
  Endpoint remote;                 // outbound
  std::size_t address_in_use = 0;  // of remote.addresses
  bool attempted = false;          // to connect, ever
  std::string failure;             // PeerState::failure
  LinkId link_id{};
  std::uint64_t token = 0;      // of the current control connection
  std::optional<Key> link_key;  // of the current connection: bulk connections prove it
  unsigned bulk_count = 1;
  bool bulk_wanted = false;            // requested, or being connected
  ContextId context;                   // inbound: of the listener
  std::uint64_t traffic_at_sweep = 0;  // outbound
  unsigned idle_sweeps = 0;            // in a row
  std::uint32_t connections = 0;
  bool same_host = false;
  bool stranger = false;  // inbound, not admitted: NetworkOptions::strangers bounds what it may do
  std::string reached;    // PeerInfo::reached, of the current control connection
  std::array<Channel, 1 + kMaxBulkConnections> channels;  // 0: control

 private:
  ClassState& state_of(MessageClass c) { return classes_[static_cast<std::size_t>(c)]; }
  Channel& channel_of(const TcpOp& op);
  Connection& control() { return *channels[0].connection; }

  // Sending.
  void begin_send(TcpOp& op);
  bool send_unexpected(TcpOp& op);
  bool send_expected(TcpOp& op);
  bool charge(TcpOp& op);
  void transmit(TcpOp& op, FrameType type);
  void push(Connection& connection, FrameHeader header, TcpOp* op);
  void want_channel(const TcpOp& op);
  void want_bulk();
  void run_waiting(MessageClass c);
  void finish(TcpOp& op, Errc status, std::uint64_t actual_size);
  void cancel_sending(TcpOp& op);
  void cancel_announced(TcpOp& op);

  // Receiving.
  bool check_credit(Connection& connection, const FrameHeader& header);
  bool on_message(Connection& connection, const FrameHeader& header);
  bool on_announce(const FrameHeader& header);
  bool on_clear(const FrameHeader& header);
  bool on_data(Connection& connection, const FrameHeader& header);
  bool on_no_data(const FrameHeader& header);
  void on_withdraw(const FrameHeader& header);
  void receive_into(Connection& connection, const FrameHeader& header, TcpOp& op);
  void clear(TcpOp& op, std::uint64_t remote_id, std::uint64_t length);
  void match_or_post(TcpOp& op);
  void take_arrived(TcpOp& op, std::unique_ptr<Arrived> arrived);
  bool charge_peer(ClassState& state, std::uint64_t cost);
  std::uint32_t most_announced() const;
  void give_back(MessageClass c, std::uint64_t cost);

  PeerHost& host_;
  const std::uint64_t seed_;
  Limits remote_;
  std::array<ClassState, 2> classes_;
  NodeList unexpected_waiting_;
  std::uint64_t undelivered_ = 0;  // charge of unexpected messages that the caller has not taken
  TcpOp* first_op_ = nullptr;
  TcpOp* last_op_ = nullptr;
};

}  // namespace spate::bmi::tcp
