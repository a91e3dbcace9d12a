// SPDX-License-Identifier: Apache-2.0
// State: the state that the parts of the tcp module share.
#pragma once

#include "bmi/protocol/shared_state.h"
#include "bmi/tcp/connection.h"
#include "bmi/tcp/counters.h"
#include "bmi/tcp/peer.h"
#include "bmi/tcp/tcp_module.h"

namespace spate::bmi::tcp {

/// See protocol::SharedState.
struct State : protocol::SharedState<Peer, PeerHost, Connection*> {
  State(const Clock& its_clock, const TcpOptions& its_options, PeerHost& its_host)
      : SharedState(its_clock, its_host, "bmi/tcp"), tcp_options(its_options) {}

  /// A peer for lookup(). An inbound peer says how many bulk connections it makes.
  Peer& add_peer() {
    Peer& peer = SharedState::add_peer();
    peer.bulk_count = tcp_options.bulk_connections;
    return peer;
  }

  const TcpOptions tcp_options;
  TcpCounters tcp_counters;
};

}  // namespace spate::bmi::tcp
