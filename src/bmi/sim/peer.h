// SPDX-License-Identifier: Apache-2.0
// Peer: the state of one process in another process's module: the connection, and the messages in both directions.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "bmi/module.h"
#include "bmi/sim/fabric.h"
#include "bmi/sim/line.h"
#include "bmi/sim/packet.h"
#include "bmi/sim/receiver.h"
#include "bmi/sim/sender.h"

namespace spate::bmi::sim {

/// Pinned. Life cycle: made by a lookup or by a connection that comes in -> connected() -> lose(), and connected()
/// again -> destroyed.
class Peer final : private Line {
 public:
  /// `target`: where to connect; empty for a process that connected to this side.
  Peer(Host& host, PeerId id, Address address, std::optional<NetworkInterface> target);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  PeerId id() const { return id_; }
  Address address() const { return address_; }
  ConnectionEnd end() const { return end_; }
  bool outbound() const { return target_.has_value(); }
  PeerState state() const;
  std::uint32_t connection() const { return connected_ ? connections_ : 0; }
  /// Whether the post may use the present connection (Post::connection).
  bool takes(const Post& post) const { return may_use(post, connected_, connections_); }
  /// Inbound peers: the hello of the connector.
  void set_origin(const Hello& hello) { origin_ = hello; }
  const Hello& origin() const { return origin_; }

  Result<PostResult> post_send(const Post& post, bool unexpected) { return sender_.post(post, unexpected); }
  Result<PostResult> post_recv(const Post& post) { return receiver_.post(post); }
  void cancel(OpId op);
  /// Whether the peer is not admitted yet. NetworkOptions::unauthenticated limits it until then.
  bool unauthenticated() const { return receiver_.unauthenticated(); }
  void begin_unauthenticated() { receiver_.set_unauthenticated(true); }
  void admit() { receiver_.set_unauthenticated(false); }
  /// The caller took an unexpected message.
  void consumed(std::uint64_t charge) { receiver_.consumed(charge); }

  /// The hello of this side for a new connection.
  Hello hello() const;
  /// A connection has been made: for inbound peers within Endpoint::accept(), for outbound ones some time after the
  /// post that began it.
  void connected(ConnectionEnd end, const Hello& other);
  /// The connection is gone. All posted operations complete with `status`, and buffered messages are dropped.
  void lose(Errc status);
  void received(Packet packet);
  void descriptor(Tag tag, int fd);
  Result<UniqueFd> take_descriptor(Tag tag);
  void left(std::uint64_t token) { sender_.left(token); }
  void delivered(std::uint64_t transfer) { sender_.delivered(transfer); }
  /// Ends the connection from this side.
  void drop(Errc status) override;

 private:
  // Line.
  bool connected() const override { return connected_; }
  std::uint64_t begin_post() override;
  void transmit(Packet packet) override;
  void violation() override;

  void on_unexpected(const Packet& packet);

  Host& host_;
  const PeerId id_;
  const Address address_;
  const std::optional<NetworkInterface> target_;
  Hello origin_;

  ConnectionEnd end_;
  bool connected_ = false;
  std::uint32_t connections_ = 0;
  std::uint64_t next_order_ = 0;
  Sender sender_;
  Receiver receiver_;
  std::deque<std::pair<Tag, int>> descriptors_;  // descriptors that a server passed and that nobody has taken
};

}  // namespace spate::bmi::sim
