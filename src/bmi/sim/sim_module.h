// SPDX-License-Identifier: Apache-2.0
// SimModule: the module of one process in a simulated network, for one of the process's paths. attach() makes it.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bmi/module.h"
#include "bmi/sim/fabric.h"
#include "bmi/sim/peer_table.h"
#include "bmi/unauthenticated_peers.h"

namespace spate::bmi::sim {

/// Life cycle: construct -> start() once -> other calls -> destroyed, which leaves the fabric at once: peers see a lost
/// connection. The fabric outlives it. Not thread-safe: one thread. It connects at the first post to a peer, and again
/// at the next post after a loss. It remembers the last kRemembered processes that had connected, so that they keep
/// their address when they come back.
class SimModule final : public Module, private Endpoint {
 public:
  SimModule(Fabric& fabric, NetworkInterface interface);
  SimModule(const SimModule&) = delete;
  SimModule& operator=(const SimModule&) = delete;
  ~SimModule() override;

  std::string_view scheme() const override { return scheme_; }
  Abilities abilities() const override;
  Result<void> start(Sink& sink, const NetworkOptions& options) override;
  Result<std::string> listen(std::string_view url, ContextId context) override;
  Result<PeerId> lookup(std::string_view url, Address address) override;
  PeerState peer_state(PeerId peer) const override;
  std::uint32_t connection(PeerId peer) const override;
  void disconnect(PeerId peer) override;
  void admit(PeerId peer) override;
  Result<PostResult> post_send(const Post& post) override;
  Result<PostResult> post_recv(const Post& post) override;
  Result<PostResult> post_send_unexpected(const Post& post) override;
  void cancel(PeerId peer, OpId op) override;
  void consumed(PeerId peer, std::uint64_t charge) override;
  Result<void> pass_descriptor(PeerId peer, Tag tag, int fd) override;
  Result<UniqueFd> take_descriptor(PeerId peer, Tag tag) override;
  bool progress() override;
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override { return outbox_.empty(); }

 private:
  static constexpr std::size_t kRemembered = 256;

  bool listening() const override { return listening_; }
  void killed() override;
  Hello accept(ConnectionEnd end, const Hello& from) override;
  void connected(ConnectionEnd end, const Hello& from) override;
  void connect_failed(ConnectionEnd end) override;
  void lost(ConnectionEnd end) override;
  void received(ConnectionEnd end, Packet packet) override;
  void descriptor(ConnectionEnd end, Tag tag, int fd) override;
  void left(ConnectionEnd end, std::uint64_t token) override;
  void delivered(ConnectionEnd end, std::uint64_t transfer) override;
  void poked() override;

  Peer& inbound_from(const Hello& from);
  Peer& add_inbound(const Hello& from);
  Peer& unauthenticated_from(const Hello& from);
  void drop_unauthenticated(PeerId peer);
  /// Updates the tables after a call that may have ended or begun the peer's connection.
  void track(Peer& peer, ConnectionEnd before);
  /// As track(), at the end of a post, which may not report the operations that it completed.
  void settle(Peer& peer, ConnectionEnd before);
  void forget_the_oldest();
  void flush();

  Fabric& fabric_;
  const std::string scheme_;
  std::vector<Outcome> outbox_;
  Host host_;
  bool dead_ = false;
  bool listening_ = false;
  bool flushing_ = false;
  ContextId context_;
  PeerTable peers_;
  UnauthenticatedPeers<PeerId> unauthenticated_peers_;
  /// Peers that are or were unauthenticated, in the order of their deadlines.
  std::deque<std::pair<MonoTime, PeerId>> admit_by_;
};

}  // namespace spate::bmi::sim
