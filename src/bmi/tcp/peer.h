// SPDX-License-Identifier: Apache-2.0
// Peer: how the protocol between this process and one other goes over connections. docs/wire-tcp.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "bmi/protocol/module_state.h"
#include "bmi/protocol/peer_base.h"
#include "bmi/tcp/connection.h"
#include "bmi/tcp/counters.h"
#include "bmi/tcp/endpoint.h"
#include "bmi/tcp/hello.h"

namespace spate::bmi::tcp {

using protocol::OpState;
using protocol::PeerPhase;

/// The functions of the module that a peer calls, with the module's lock held.
class PeerHost {
 public:
  virtual ~PeerHost() = default;
  /// Connects the control connection of a peer that was looked up; the second function connects its bulk connections.
  virtual void connect_control(Peer& peer) = 0;
  virtual void connect_bulk(Peer& peer) = 0;
  /// Writes the queued frames, as far as the socket accepts them.
  virtual void flush(Connection& connection) = 0;
  /// A cancelled send has begun to leave: drops the peer unless the frame has left within the grace period.
  virtual void begin_grace(Connection& connection, const Op& op) = 0;
  /// Whether to lend memory to the kernel on bulk connections to this peer.
  virtual bool lends(const Peer& peer) const = 0;
  /// A message of the control class is being reported to the core.
  virtual void control_arrived() = 0;
  virtual void unauthenticated_asked(Peer& peer) = 0;
  virtual TcpCounters& counters() = 0;
};

/// One connection of the peer, or the place for it.
struct Channel {
  Connection* connection = nullptr;  // open, after the handshake; else null
  Connection* opening = nullptr;     // this side's attempt to connect, until it is open
};

/// See protocol::PeerBase. Life cycle: made by a lookup or by an inbound connection -> connected() -> disconnected()
/// when the connections are lost, and connected() again -> destroyed. The class of bulk messages is open when all its
/// connections are.
class Peer final : public protocol::PeerBase, public FrameHandler, public SendObserver {
 public:
  Peer(PeerHost& host, protocol::ModuleState& module, PeerId id, std::uint64_t seed)
      : protocol::PeerBase(module, id, seed), host_(host) {}

  /// A connection of this peer has ended its handshake. `limits`: what the peer allows this side, for the control
  /// connection.
  void connected(Connection& connection, const Limits& limits);
  /// The connections are closed, so the kernel no longer uses the memory of any operation.
  void disconnected(Errc status);

  // FrameHandler, SendObserver.
  std::size_t header_size() const override { return kHeaderSize; }
  bool on_header(Connection& connection, const std::byte* bytes) override;
  void on_payload(Connection& connection) override;
  void sent(Op& op) override;
  void told(OpId op) override;

  /// Notes the security of a new control connection; null: it is a plain one.
  void secured_by(const tls::Stream* stream);

  /// Whether a bulk connection is open, or this side is opening one.
  bool has_bulk() const;
  /// Whether nothing is posted, buffered or in flight in either direction.
  bool at_rest() const;
  /// Bytes that its open connections have carried. A change means that the peer is in use.
  std::uint64_t traffic() const;

  /// Writes the frames that were queued while other frames were handled.
  void flush_all() override;

  Endpoint remote;                 // of an outbound peer
  std::size_t address_in_use = 0;  // index in remote.addresses
  std::uint64_t token = 0;         // of the current control connection
  std::optional<Key> link_key;     // of the current control connection; bulk connections prove it
  unsigned bulk_count = 1;
  bool bulk_wanted = false;            // the bulk connections were requested, or this side is making them
  std::uint64_t traffic_at_sweep = 0;  // outbound peers: traffic() at the last sweep
  unsigned idle_sweeps = 0;            // sweeps in a row that found no traffic
  bool same_host = false;
  // Of the current control connection, see PeerInfo.
  std::string reached;
  std::string security;
  Hash binding{};
  std::array<Channel, 1 + kMaxBulkConnections> channels{};  // 0: control

 private:
  // Path.
  void push(const protocol::Header& header, Op* op) override;
  void answer(const protocol::Header& header) override { push(control(), header, nullptr); }
  protocol::Withdrawn withdraw(Op& op, const protocol::Header* instead) override;
  void flush_posted(MessageClass c) override;
  void want(MessageClass c) override;
  void grace(Op& op) override;
  void unauthenticated_asked() override { host_.unauthenticated_asked(*this); }

  Channel& channel_of(MessageClass c, std::uint64_t tag);
  Connection& control() { return *channels[0].connection; }
  void push(Connection& connection, const protocol::Header& header, Op* op);
  void open_channel(Connection& connection);
  void want_bulk();
  bool bulk_is_open() const;
  bool check_credit(const Connection& connection, const FrameHeader& header);
  void return_credit();

  PeerHost& host_;
};

}  // namespace spate::bmi::tcp
