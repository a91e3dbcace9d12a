// SPDX-License-Identifier: Apache-2.0
// ShmModule: bmi between two processes of one host. What they share: docs/wire-shm.md.
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
  /// Who may connect to this process's listeners.
  AccessPolicy policy;
  /// Whose listeners this process connects to, besides root's. Anybody else who has bound a server's name is passed by.
  AccessPolicy servers;
  /// How long to go on looking after the last thing was found, before sleeping; 0 = not at all, as suits servers whose
  /// hosts compute.
  Duration spin = Duration(0);
  /// Lanes of the segments that this side makes when it accepts, by class. Memory is used as far as it is written.
  Geometry geometry{{LaneSize{256, 128 * 1024}, LaneSize{256, 512 * 1024}}};
  /// Memory of mem_alloc is taken in arenas of so many bytes (address space; pages cost memory when they are touched).
  std::uint64_t arena_bytes = std::uint64_t{256} << 20U;
  /// Messages per class that a peer may announce without this side having posted their receives.
  std::uint32_t max_announced = 8192;
  /// How long a peer may take to say that it does not read a cancelled message; then it is dropped.
  std::uint32_t cancel_grace_ms = 500;
  /// Inbound peers that left and are remembered, so that they have the same address when they come back.
  std::uint32_t gone_peers_kept = 1024;
  /// Passed descriptors that wait to be taken, of each peer that this side connected to, and of each that connected to
  /// it.
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
