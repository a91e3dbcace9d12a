// SPDX-License-Identifier: Apache-2.0
// Connector: makes the links to peers that were looked up, and does this side's part of their handshakes.
#pragma once

#include <string>

#include "bmi/shm/hello.h"
#include "bmi/shm/links.h"
#include "bmi/shm/packet.h"

namespace spate::bmi::shm {

/// The module's lock guards it. Life cycle: that of the module.
class Connector {
 public:
  Connector(State& state, Events& events, Links& links, PolledLinks& polled)
      : state_(state), events_(events), links_(links), polled_(polled) {}

  /// See PeerHost.
  void connect(Peer& peer);
  /// The deadline of an attempt has passed: tries again, or gives up.
  void on_deadline(Link& link);
  /// The server has answered.
  void on_welcome(Link& link);

 private:
  void try_connect(Link& link);
  bool say_hello(Link& link);
  Result<void> accept_welcome(Link& link, Packet& packet, Limits& limits);
  void attempt_failed(Peer& peer, std::string why);

  State& state_;
  Events& events_;
  Links& links_;
  PolledLinks& polled_;
};

}  // namespace spate::bmi::shm
