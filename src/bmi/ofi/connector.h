// SPDX-License-Identifier: Apache-2.0
// Connector: connects the peers that were looked up, and does this side's part of their handshakes.
#pragma once

#include <string>

#include "bmi/ofi/endpoints.h"
#include "bmi/ofi/sessions.h"

namespace spate::bmi::ofi {

/// The module's lock guards it. Life cycle: that of the module.
class Connector {
 public:
  Connector(State& state, Endpoints& endpoints, Sessions& sessions, PendingPeers& pending_peers)
      : state_(state), endpoints_(endpoints), sessions_(sessions), pending_peers_(pending_peers) {}

  /// See PeerHost.
  void connect(Peer& peer);
  /// Sends a hello for a peer in kConnecting; again if the last one may have been lost.
  Result<void> say_hello(Peer& peer);
  /// The peer's endpoint was closed, which ended its route, and `opened` is the result of opening it again.
  void again(Peer& peer, const Result<void>& opened);
  void attempt_failed(Peer& peer, std::string why);
  /// The server has answered.
  void on_welcome(Peer& peer, ByteView payload);

 private:
  Result<void> begin_session(Peer& peer);

  State& state_;
  Endpoints& endpoints_;
  Sessions& sessions_;
  PendingPeers& pending_peers_;
};

}  // namespace spate::bmi::ofi
