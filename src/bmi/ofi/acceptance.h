// SPDX-License-Identifier: Apache-2.0
// Acceptance: lets in the peers that say hello to a listening endpoint.
#pragma once

#include <cstdint>

#include "bmi/ofi/endpoints.h"
#include "bmi/ofi/sessions.h"

namespace spate::bmi::ofi {

/// The module's lock guards it. Life cycle: that of the module.
class Acceptance {
 public:
  Acceptance(State& state, Sessions& sessions) : state_(state), sessions_(sessions) {}

  /// A packet of type kHello has arrived at the endpoint, from any sender. Makes the peer, or finds the one that has
  /// come back, and welcomes it; or refuses it with a reason. A hello of a session that exists gets the same answer
  /// again. Bytes that are no hello count as a protocol error.
  void on_hello(Endpoint& endpoint, ByteView payload);

 private:
  Peer* unauthenticated_peer(Endpoint& endpoint, const Hello& hello);
  Peer* returning_peer(Endpoint& endpoint, const Hello& hello);
  bool said_before(Peer& peer, const Hello& hello);
  void refuse(Endpoint& endpoint, const Hello& hello, Errc status);
  void welcome_peer(Endpoint& endpoint, Peer& peer, const Hello& hello);
  bool say_welcome(Peer& peer, std::uint64_t session);

  State& state_;
  Sessions& sessions_;
};

}  // namespace spate::bmi::ofi
