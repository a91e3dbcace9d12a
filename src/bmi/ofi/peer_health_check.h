// SPDX-License-Identifier: Apache-2.0
// PeerHealthCheck: looks at all peers of the ofi module from time to time: deadlines, processes that have ended,
// silence.
#pragma once

#include "bmi/ofi/connector.h"
#include "bmi/ofi/endpoints.h"
#include "bmi/ofi/sessions.h"

namespace spate::bmi::ofi {

/// The module's lock guards it.
class PeerHealthCheck {
 public:
  PeerHealthCheck(State& state, Endpoints& endpoints, Sessions& sessions, Connector& connector,
                  PendingPeers& pending_peers)
      : state_(state),
        endpoints_(endpoints),
        sessions_(sessions),
        connector_(connector),
        pending_peers_(pending_peers) {}

  /// Looks at all peers and sets the time of the next look. Drops unauthenticated peers that were not admitted in time,
  /// peers that keep cancelled memory for too long, to which nothing can be sent, or whose process has ended. Pings
  /// silent peers, repeats hellos, and reopens an endpoint if its reads do not end or its connection is broken. May
  /// take 250 ms for an endpoint of verbs. Call it outside of Wire::poll().
  void sweep();

 private:
  void sweep_peer(Peer& peer, MonoTime now, Wire*& hung);
  void sweep_attempt(Peer& peer, MonoTime now, Wire*& hung);
  bool is_lost(Peer& peer, MonoTime now);
  void ping_if_silent(Peer& peer, MonoTime now);
  void reopen(Wire& wire);

  State& state_;
  Endpoints& endpoints_;
  Sessions& sessions_;
  Connector& connector_;
  PendingPeers& pending_peers_;
};

}  // namespace spate::bmi::ofi
