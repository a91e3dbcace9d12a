// SPDX-License-Identifier: Apache-2.0
// State: the state that the parts of the shm module share.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "base/random.h"
#include "bmi/protocol/peer_log.h"
#include "bmi/protocol/shared_state.h"
#include "bmi/shm/arena.h"
#include "bmi/shm/counters.h"
#include "bmi/shm/link.h"
#include "bmi/shm/peer.h"
#include "bmi/shm/shm_module.h"
#include "bmi/unauthenticated_peers.h"

namespace spate::bmi::shm {

/// See protocol::SharedState.
struct State : protocol::SharedState<Peer> {
  State(const Clock& its_clock, ShmOptions its_options, PeerHost& its_host)
      : clock(its_clock),
        shm_options(std::move(its_options)),
        own_uid(::geteuid()),
        host(its_host),
        arenas(shm_options.arena_bytes),
        peer_log(its_clock, "bmi/shm") {}

  Peer& add_peer() {
    return peers.add([this](PeerId id) { return std::make_unique<Peer>(host, *this, id, random.next()); });
  }

  const Clock& clock;
  const ShmOptions shm_options;
  const std::uint32_t own_uid;
  PeerHost& host;
  SystemRandom random;
  ArenaPool arenas;
  UnauthenticatedPeers<Link*> unauthenticated_peers;  // links that have sent no hello, or whose peer is not admitted
  ShmCounters shm_counters;
  protocol::PeerLog peer_log;
};

}  // namespace spate::bmi::shm
