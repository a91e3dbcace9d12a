// SPDX-License-Identifier: Apache-2.0
// State: what the parts of the ofi module share.
#pragma once

#include <memory>

#include "base/random.h"
#include "bmi/ofi/counters.h"
#include "bmi/ofi/ofi_module.h"
#include "bmi/ofi/peer.h"
#include "bmi/protocol/peer_log.h"
#include "bmi/protocol/shared_state.h"
#include "bmi/unauthenticated_peers.h"

namespace spate::bmi::ofi {

/// See protocol::SharedState.
struct State : protocol::SharedState<Peer> {
  State(const Clock& its_clock, const OfiOptions& its_options, PeerHost& its_host)
      : clock(its_clock), ofi_options(its_options), host(its_host), peer_log(its_clock, "bmi/ofi") {}

  Peer& add_peer() {
    return peers.add([this](PeerId id) { return std::make_unique<Peer>(host, *this, id, random.next()); });
  }

  const Clock& clock;
  const OfiOptions ofi_options;
  PeerHost& host;
  SystemRandom random;
  UnauthenticatedPeers<Peer*> unauthenticated_peers;  // connected, not admitted
  OfiCounters ofi_counters;
  protocol::PeerLog peer_log;
};

}  // namespace spate::bmi::ofi
