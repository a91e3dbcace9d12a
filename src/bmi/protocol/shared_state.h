// SPDX-License-Identifier: Apache-2.0
// SharedState: the state that the parts of one module share.
#pragma once

#include <memory>
#include <utility>

#include "bmi/protocol/module_state.h"
#include "bmi/protocol/peer_table.h"

namespace spate::bmi::protocol {

/// ModuleState and the peers, which are of class P. Each module derives its own State and adds what else its parts
/// share. The module's lock guards it.
template <typename P>
struct SharedState : ModuleState {
  /// Calls `lose(peer, status)` for each peer that lose_later() marked, also for those that `lose` itself marks.
  template <typename Lose>
  void take_losses(Lose lose) {
    if (!lost.empty()) lose_all(lose);  // short enough to be inlined: each call of the module ends with it
  }
  /// A peer that was added has connected to this side, to the listener of `context`. An unauthenticated peer is a
  /// separate peer until it is admitted. Otherwise a process that has learnt a link's id could replace another peer.
  void came_in(P& peer, const LinkId& link, ContextId context, bool unauthenticated) {
    peer.unauthenticated = unauthenticated;
    peer.came_in(link, context);
    if (!unauthenticated) peers.set_inbound(peer);
    outbox.inbound(peer);
  }
  /// An inbound peer left. At most `most` such peers are remembered.
  void left(P& peer, std::size_t most) {
    if (std::unique_ptr<P> forgotten = peers.left(peer, most)) outbox.forgotten(std::move(forgotten));
  }

  PeerTable<P> peers;

 private:
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
