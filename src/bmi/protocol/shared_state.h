// SPDX-License-Identifier: Apache-2.0
// SharedState: the state that the parts of one module share.
#pragma once

#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "bmi/protocol/module_state.h"
#include "bmi/protocol/peer_log.h"
#include "bmi/protocol/peer_table.h"
#include "bmi/unauthenticated_peers.h"

namespace spate::bmi::protocol {

/// ModuleState, the peers, and how an inbound connection gets its peer. P is the module's class of peers, and Host what
/// its constructor takes first. `Accepted` names an accepted connection in the table of unauthenticated peers. Each
/// module derives its own State and adds what else its parts share. The module's lock guards it.
template <typename P, typename Host, typename Accepted>
struct SharedState : ModuleState {
  /// `module`: the folder of the module, for the log.
  SharedState(const Clock& its_clock, Host& its_host, log::Source module)
      : clock(its_clock), host(its_host), peer_log(its_clock, module) {}

  /// Calls `lose(peer, status)` for each peer that lose_later() marked, also for those that `lose` itself marks.
  template <typename Lose>
  void take_losses(Lose lose) {
    if (!lost.empty()) lose_all(lose);  // short enough to be inlined: each call of the module ends with it
  }
  P& add_peer() {
    return peers.add([this](PeerId id) { return std::make_unique<P>(host, *this, id, random.next()); });
  }

  /// The peer of a new inbound connection to the listener of `context`, of a module that admits no peer without
  /// authentication. It is a separate peer until it is admitted. Otherwise a process that has learnt a link's id could
  /// replace another peer.
  P& unauthenticated_peer(const LinkId& link, ContextId context) { return came_in(link, context, true); }
  /// The peer of a new inbound connection that needs no authentication. A process that was connected before keeps its
  /// peer. Its old connection is dead, so `connections.lose_peer(peer, status)` closes it.
  template <typename Connections>
  P& returning_peer(const LinkId& link, ContextId context, Connections& connections) {
    P* const known = peers.inbound(link);
    if (known == nullptr) return came_in(link, context, false);
    connections.lose_peer(*known, Errc::kConnectionLost);
    peers.came_back(*known);
    return *known;
  }
  /// An unauthenticated peer was admitted. If the same process was connected before, `connections.lose_peer` closes its
  /// old connection.
  template <typename Connections>
  void admitted(P& peer, Connections& connections) {
    if (P* before = peers.set_inbound(peer)) connections.lose_peer(*before, Errc::kConnectionLost);
  }
  /// An inbound peer left. At most `most` such peers are remembered.
  void left(P& peer, std::size_t most) {
    if (std::unique_ptr<P> forgotten = peers.left(peer, most)) outbox.forgotten(std::move(forgotten));
  }

  const Clock& clock;
  Host& host;
  SystemRandom random;
  PeerTable<P> peers;
  /// Accepted connections that have sent no hello, or whose peer is not admitted.
  UnauthenticatedPeers<Accepted> unauthenticated_peers;
  PeerLog peer_log;

 private:
  P& came_in(const LinkId& link, ContextId context, bool unauthenticated) {
    P& peer = add_peer();
    peer.unauthenticated = unauthenticated;
    peer.came_in(link, context);
    if (!unauthenticated) peers.set_inbound(peer);
    outbox.inbound(peer);
    return peer;
  }
  template <typename Lose>
  void lose_all(Lose lose) {
    while (!lost.empty()) {
      const Loss loss = lost.back();
      lost.pop_back();
      if (P* peer = peers.find(loss.peer)) lose(*peer, loss.status);
    }
  }
};

}  // namespace spate::bmi::protocol
