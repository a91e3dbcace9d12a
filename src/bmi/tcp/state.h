// SPDX-License-Identifier: Apache-2.0
// State: the state that the parts of the tcp module share.
#pragma once

#include <memory>

#include "base/random.h"
#include "bmi/protocol/peer_log.h"
#include "bmi/protocol/shared_state.h"
#include "bmi/tcp/connection.h"
#include "bmi/tcp/counters.h"
#include "bmi/tcp/peer.h"
#include "bmi/tcp/tcp_module.h"
#include "bmi/unauthenticated_peers.h"

namespace spate::bmi::tcp {

/// See protocol::SharedState.
struct State : protocol::SharedState<Peer> {
  State(const Clock& its_clock, const TcpOptions& its_options, PeerHost& its_host)
      : clock(its_clock), tcp_options(its_options), host(its_host), peer_log(its_clock, "bmi/tcp") {}

  Peer& add_peer() {
    Peer& peer = peers.add([this](PeerId id) { return std::make_unique<Peer>(host, *this, id, random.next()); });
    peer.bulk_count = tcp_options.bulk_connections;
    return peer;
  }

  const Clock& clock;
  const TcpOptions tcp_options;
  PeerHost& host;
  SystemRandom random;
  /// Connections that have sent no hello, and control connections of peers that are not admitted.
  UnauthenticatedPeers<Connection*> unauthenticated_peers;
  TcpCounters tcp_counters;
  protocol::PeerLog peer_log;
};

}  // namespace spate::bmi::tcp
