// SPDX-License-Identifier: Apache-2.0
// Sweeper: looks at all peers of the ofi module from time to time: deadlines, processes that have ended, silence.
#pragma once

#include "bmi/ofi/connector.h"
#include "bmi/ofi/endpoints.h"
#include "bmi/ofi/sessions.h"

namespace spate::bmi::ofi {

/// The module's lock guards it.
class Sweeper {
 public:
  Sweeper(State& state, Endpoints& endpoints, Sessions& sessions, Connector& connector, Agenda& agenda)
      : state_(state), endpoints_(endpoints), sessions_(sessions), connector_(connector), agenda_(agenda) {}

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
  Agenda& agenda_;
};

}  // namespace spate::bmi::ofi
