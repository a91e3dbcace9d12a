// SPDX-License-Identifier: Apache-2.0
// EventLoop: the turns of the ofi module: what the endpoints report, and peers with more work.
#pragma once

#include <cstdint>

#include "bmi/ofi/acceptance.h"
#include "bmi/ofi/peer_health_check.h"
#include "bmi/protocol/wake_timer.h"

namespace spate::bmi::ofi {

/// The module's lock guards it.
class EventLoop {
 public:
  /// The parts that a turn calls; the module owns them.
  struct Parts {
    State& state;
    PendingPeers& pending_peers;
    Endpoints& endpoints;
    Sessions& sessions;
    Connector& connector;
    Acceptance& acceptance;
    PeerHealthCheck& peer_health_check;
    protocol::WakeTimer& timer;
  };
  explicit EventLoop(const Parts& parts) : parts_(parts) {}

  /// A turn. Returns whether there was anything to do.
  bool poll();
  /// See Module::prepare_to_wait.
  bool prepare_to_wait();

 private:
  class Client;

  bool poll_wire(Endpoint& endpoint);
  bool turn_all();
  void on_packet(Endpoint& endpoint, ByteView bytes);
  void on_sent(Route& route, bool good);
  Duration time_to_next_look() const;

  const Parts parts_;
  std::uint32_t polls_ = 0;
  std::uint32_t idle_polls_ = 0;  // in a row
};

}  // namespace spate::bmi::ofi
