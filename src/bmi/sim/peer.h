// SPDX-License-Identifier: Apache-2.0
// Peer: the state of one process in another one's module: matching, flow control, transfers, and loss.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bmi/module.h"
#include "bmi/sim/credit.h"
#include "bmi/sim/fabric.h"
#include "bmi/sim/packet.h"

namespace spate::bmi::sim {

/// The parts of the module that a peer uses. They outlive it.
struct Host {
  Fabric& fabric;
  NetworkInterface interface;
  std::uint64_t instance = 0;
  const NetworkOptions* options = nullptr;
  Sink* sink = nullptr;
  std::vector<Outcome>& outbox;  // reported by the module when it is safe to be called back
};

/// Operations are found by id; their queues hold them in the order of posting, so that a cancel is cheap and an
/// operation that must go back finds its old turn.
class Peer {
 public:
  /// `target`: where to connect to; nothing for a process that connected to us.
  Peer(Host& host, PeerId id, Address address, std::optional<NetworkInterface> target);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  PeerId id() const { return id_; }
  Address address() const { return address_; }
  ConnectionEnd end() const { return end_; }
  bool outbound() const { return target_.has_value(); }
  PeerState state() const;
  std::uint32_t connection() const { return connected_ ? connections_ : 0; }
  /// See Post::connection.
  bool takes(const Post& post) const { return may_use(post, connected_, connections_); }
  /// The connector's, for inbound peers.
  void set_origin(const Hello& hello) { origin_ = hello; }
  const Hello& origin() const { return origin_; }

  Result<PostResult> post_send(const Post& post, bool unexpected);
  Result<PostResult> post_recv(const Post& post);
  void cancel(OpId op);
  /// Not admitted, until admit(): NetworkOptions::strangers bounds what it may do.
  bool stranger() const { return stranger_; }
  void begin_as_stranger() { stranger_ = true; }
  void admit() { stranger_ = false; }
  /// The caller took an unexpected message.
  void consumed(std::uint64_t charge);

  /// What this side says when a connection is made.
  Hello hello() const;
  /// A connection stands: inbound ones from Module::accept, outbound ones later than connect().
  void connected(ConnectionEnd end, const Hello& other);
  /// The connection is gone: everything posted completes with `status`, what was buffered is dropped.
  void lose(Errc status);
  void received(Packet packet);
  void descriptor(Tag tag, int fd);
  Result<UniqueFd> take_descriptor(Tag tag);
  void left(std::uint64_t token);
  void delivered(std::uint64_t transfer);
  /// Ends the connection from this side.
  void drop(Errc status);

 private:
  using MatchKey = std::pair<MessageClass, Tag>;
  using OpQueue = std::map<std::uint64_t, OpId>;
  enum Lane : std::size_t { kUnexpectedLane, kControlLane, kBulkLane, kLanes };

  struct Send {
    enum class Stage : std::uint8_t { kWaiting, kAnnounced, kMoving, kLeaving };
    std::uint64_t order = 0;
    Lane lane = kControlLane;
    MatchKey key;
    bool ready = false;
    std::vector<Segment> segments;
    std::uint64_t size = 0;
    Stage stage = Stage::kWaiting;
    std::uint64_t transfer = 0;
    std::uint64_t offset = 0;     // moved so far
    std::uint32_t under_way = 0;  // packets not yet delivered
    bool packet_queued = false;   // one has not left yet
  };
  struct Receive {
    std::uint64_t order = 0;
    MatchKey key;
    std::vector<Segment> segments;
    std::uint64_t size = 0;
    std::uint64_t transfer = 0;  // being filled by it; 0: waiting
  };
  struct Arrival {  // a message that nobody waits for yet
    bool announced = false;
    Bytes payload;
    std::uint64_t transfer = 0;
    std::uint64_t size = 0;
  };
  struct Incoming {  // data under way to us
    OpId op;         // none: dropped on arrival
    MatchKey key;
    std::uint64_t size = 0;
    std::uint64_t received = 0;
  };

  // Sending: peer_send.cc.
  void connect_if_idle();
  void pump(Lane lane);
  bool launch(OpId op, Send& send);
  bool launch_whole(OpId op, Send& send, Packet::Kind kind);
  void start_moving(Send& send);
  void move_on(OpId op, Send& send);
  bool gather(const Send& send, std::uint64_t offset, MutableByteView out);
  void transmit(Packet packet);
  void on_clear(std::uint64_t transfer);
  void on_refuse(std::uint64_t transfer);
  void cancel_send(OpId op);

  // Receiving: peer_receive.cc.
  void on_unexpected(Packet& packet);
  void on_eager(Packet& packet);
  void on_announce(const Packet& packet);
  void on_ready(const Packet& packet);
  void on_data(const Packet& packet);
  void on_withdraw(const Packet& packet);
  OpId first_waiting(MatchKey key) const;
  void match(OpId op);
  void take_whole(OpId op, ByteView payload);
  void accept_announced(OpId op, std::uint64_t transfer, std::uint64_t size);
  void complete_receive(OpId op, Errc status, std::uint64_t size);
  void cancel_receive(OpId op);
  /// False: the peer has exceeded its credit, or a stranger's limit.
  bool hold(Pool pool, std::uint64_t amount);
  std::uint64_t most_of(Pool pool) const;
  void release(Pool pool, std::uint64_t amount);
  void violation();

  static Pool pool_of(MessageClass c, Pool control) {
    return c == MessageClass::kControl ? control : static_cast<Pool>(control + 1);
  }

  Host& host_;
  const PeerId id_;
  const Address address_;
  const std::optional<NetworkInterface> target_;
  Hello origin_;

  ConnectionEnd end_;
  bool connected_ = false;
  std::uint32_t connections_ = 0;
  std::array<SendCredit, kPools> send_credit_;
  std::array<ReceiveCredit, kPools> receive_credit_;
  bool stranger_ = false;

  std::uint64_t next_order_ = 0;
  std::uint64_t next_transfer_ = 0;
  std::map<OpId, Send> sends_;
  std::array<OpQueue, kLanes> waiting_;
  std::map<std::uint64_t, OpId> outgoing_;  // transfers announced or moving
  std::map<OpId, Receive> receives_;
  std::map<MatchKey, OpQueue> posted_;
  std::map<MatchKey, std::deque<Arrival>> arrivals_;
  std::map<std::uint64_t, Incoming> incoming_;   // by the other side's transfer
  std::deque<std::pair<Tag, int>> descriptors_;  // passed by a server, not taken yet
};

}  // namespace spate::bmi::sim
