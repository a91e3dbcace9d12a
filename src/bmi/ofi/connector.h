// SPDX-License-Identifier: Apache-2.0
// Connector: connects the peers that were looked up, and does this side's part of their handshakes.
#pragma once

#include <string>

#include "bmi/ofi/endpoints.h"
#include "bmi/ofi/sessions.h"

namespace spate::bmi::ofi {

/// The module's lock guards it.
class Connector {
 public:
  Connector(State& state, Endpoints& endpoints, Sessions& sessions, Agenda& agenda)
      : state_(state), endpoints_(endpoints), sessions_(sessions), agenda_(agenda) {}

  /// See PeerHost.
  void connect(Peer& peer);
  /// A kConnecting peer: the last hello may be lost.
  Result<void> say_hello(Peer& peer);
  /// The peer's endpoint was `opened` anew: its route went with the old one.
  void again(Peer& peer, const Result<void>& opened);
  void attempt_failed(Peer& peer, std::string why);
  /// The server has answered.
  void on_welcome(Peer& peer, ByteView payload);

 private:
  Result<void> begin_session(Peer& peer);

  State& state_;
  Endpoints& endpoints_;
  Sessions& sessions_;
  Agenda& agenda_;
};

}  // namespace spate::bmi::ofi
