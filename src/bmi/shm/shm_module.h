// SPDX-License-Identifier: Apache-2.0
// ShmModule: bmi between two processes of one host. docs/wire-shm.md describes the memory that they share.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "bmi/module.h"
#include "bmi/shm/counters.h"
#include "bmi/shm/layout.h"
#include "bmi/shm/policy.h"

namespace spate::bmi::shm {

struct ShmOptions {
  /// Which users may connect to this process's listeners.
  AccessPolicy policy;
  /// The users whose listeners this process connects to, besides root. A listener of another user under a server's name
  /// is skipped.
  AccessPolicy servers;
  /// How long a thread polls after it last found something, before it sleeps. 0: not at all, which suits servers that
  /// share their host with computations.
  Duration spin = Duration(0);
  /// Lanes of the segments that this side makes when it accepts, by class. A page costs memory once it is written.
  Geometry geometry{{LaneSize{256, 128 * 1024}, LaneSize{256, 512 * 1024}}};
  /// Address space of each arena of mem_alloc(), bytes. Pages cost memory when they are touched.
  std::uint64_t arena_bytes = std::uint64_t{256} << 20U;
  /// Messages per class that a peer may announce without this side having posted their receives.
  std::uint32_t max_announced = 8192;
  /// How long a peer may take to confirm that it does not read a cancelled message. Then it is dropped.
  std::uint32_t cancel_grace_ms = 500;
  /// How many inbound peers that left are remembered, so that they have the same address when they come back.
  std::uint32_t gone_peers_kept = 1024;
  /// How many passed descriptors may wait to be taken: for each peer that this side connected to, and for each that
  /// connected to it.
  std::uint32_t descriptors_from_servers = 64;
  std::uint32_t descriptors_from_clients = 0;
};

/// Counters, for metrics and tests.
class ShmModule : public Module {
 public:
  virtual ShmCounters counters() const = 0;
};

/// `clock` outlives the module.
std::unique_ptr<ShmModule> make_shm_module(const Clock& clock, ShmOptions options = {});

}  // namespace spate::bmi::shm
