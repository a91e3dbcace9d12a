// SPDX-License-Identifier: Apache-2.0
// Peer: how the protocol between this process and one other goes over connections. docs/wire-tcp.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "bmi/protocol/module_state.h"
#include "bmi/protocol/peer.h"
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
  /// Connects the control connection, or the bulk connections, of a peer that was looked up.
  virtual void connect_control(Peer& peer) = 0;
  virtual void connect_bulk(Peer& peer) = 0;
  /// Writes the queued frames, as far as the socket accepts them.
  virtual void flush(Connection& connection) = 0;
  /// A cancelled send has begun to leave: drops the peer unless the frame has left within the grace period.
  virtual void begin_grace(Connection& connection, const Op& op) = 0;
  /// Whether to lend memory to the kernel on bulk connections to this peer.
  virtual bool lends(const Peer& peer) const = 0;
  /// A message of the control class goes to the core.
  virtual void control_arrived() = 0;
  virtual void stranger_asked(Peer& peer) = 0;
  virtual TcpCounters& counters() = 0;
};

/// One way to the peer.
struct Channel {
  Connection* connection = nullptr;  // open (handshake done), or null
  Connection* opening = nullptr;     // this side's attempt, until it is open
};

/// See protocol::Peer. Life cycle: made by a lookup or by an inbound connection -> connected() -> disconnected() when
/// the connections are lost, and connected() again -> destroyed. The class of bulk messages is open when all its
/// connections are.
class Peer final : public protocol::Peer, public FrameHandler, public SendObserver {
 public:
  Peer(PeerHost& host, protocol::ModuleState& module, PeerId id, std::uint64_t seed)
      : protocol::Peer(module, id, seed), host_(host) {}

  /// A connection of this peer has said hello; `limits`: what the peer lets us do (control connection).
  void connected(Connection& connection, const Limits& limits);
  /// The connections are closed: the kernel uses no operation's memory any more.
  void disconnected(Errc status);

  // FrameHandler, SendObserver.
  std::size_t header_size() const override { return kHeaderSize; }
  bool on_header(Connection& connection, const std::byte* bytes) override;
  void on_payload(Connection& connection) override;
  void sent(Op& op) override;
  void told(OpId op) override;

  /// Whether a bulk connection is open, or this side is opening one.
  bool has_bulk() const;
  /// Whether nothing is posted, buffered or in flight in either direction.
  bool at_rest() const;
  /// Bytes that its open connections have carried. A change means that the peer is in use.
  std::uint64_t traffic() const;

  /// Writes out whatever handling frames has queued.
  void flush_all() override;

  Endpoint remote;                 // outbound
  std::size_t address_in_use = 0;  // of remote.addresses
  std::uint64_t token = 0;         // of the current control connection
  std::optional<Key> link_key;     // of the current connection: bulk connections prove it
  unsigned bulk_count = 1;
  bool bulk_wanted = false;            // requested, or being connected
  std::uint64_t traffic_at_sweep = 0;  // outbound
  unsigned idle_sweeps = 0;            // in a row
  bool same_host = false;
  std::string reached;                                      // PeerInfo::reached, of the current control connection
  std::array<Channel, 1 + kMaxBulkConnections> channels{};  // 0: control

 private:
  // Path.
  void push(const protocol::Header& header, Op* op) override;
  void answer(const protocol::Header& header) override { push(control(), header, nullptr); }
  protocol::Withdrawn withdraw(Op& op, const protocol::Header* instead) override;
  void flush_posted(MessageClass c) override;
  void want(MessageClass c) override;
  void grace(Op& op) override;
  void stranger_asked() override { host_.stranger_asked(*this); }

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
