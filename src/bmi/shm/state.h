// SPDX-License-Identifier: Apache-2.0
// State: the state that the parts of the shm module share.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "bmi/protocol/shared_state.h"
#include "bmi/shm/arena.h"
#include "bmi/shm/counters.h"
#include "bmi/shm/link.h"
#include "bmi/shm/peer.h"
#include "bmi/shm/shm_module.h"

namespace spate::bmi::shm {

/// See protocol::SharedState.
struct State : protocol::SharedState<Peer, PeerHost, Link*> {
  State(const Clock& its_clock, ShmOptions its_options, PeerHost& its_host)
      : SharedState(its_clock, its_host, "bmi/shm"),
        shm_options(std::move(its_options)),
        own_uid(::geteuid()),
        arenas(shm_options.arena_bytes) {}

  const ShmOptions shm_options;
  const std::uint32_t own_uid;
  ArenaPool arenas;
  ShmCounters shm_counters;
};

}  // namespace spate::bmi::shm
