// SPDX-License-Identifier: Apache-2.0
// State: what the parts of the ofi module share.
#pragma once

#include "bmi/ofi/counters.h"
#include "bmi/ofi/ofi_module.h"
#include "bmi/ofi/peer.h"
#include "bmi/protocol/shared_state.h"

namespace spate::bmi::ofi {

/// See protocol::SharedState. Its unauthenticated peers are connected, and not admitted.
struct State : protocol::SharedState<Peer, PeerHost, Peer*> {
  State(const Clock& its_clock, const OfiOptions& its_options, PeerHost& its_host)
      : SharedState(its_clock, its_host, "bmi/ofi"), ofi_options(its_options) {}

  const OfiOptions ofi_options;
  OfiCounters ofi_counters;
};

}  // namespace spate::bmi::ofi
