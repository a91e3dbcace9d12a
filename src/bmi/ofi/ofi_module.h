// SPDX-License-Identifier: Apache-2.0
// OfiModule: bmi over libfabric. What goes over the wire: docs/wire-ofi.md.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "bmi/module.h"
#include "bmi/ofi/counters.h"
#include "bmi/pin_cache.h"

namespace spate::bmi::ofi {

struct OfiOptions {
  /// Messages per class that a peer may announce without this side having posted their receives.
  std::uint32_t max_announced = 8192;
  /// How long a peer or a device may take to let go of a cancelled operation's memory before its session, or the
  /// endpoint, is closed.
  std::uint32_t cancel_grace_ms = 500;
  /// A peer to which nothing can be sent for so long is lost.
  std::uint32_t stuck_ms = 3000;
  /// A peer that has said nothing for so long is asked whether it is there; ten times as long when nothing is posted.
  std::uint32_t ping_ms = 2000;
  /// Peers that called us: connected ones, and ones that left and are remembered.
  std::uint32_t inbound_limit = 4096;
  std::uint32_t gone_peers_kept = 1024;
  /// Bytes of a packet, header included, at most; and packets that each endpoint has posted for receiving.
  std::uint32_t packet_bytes = 16128;
  std::uint32_t receive_packets = 128;
  /// Registered at any time by each endpoint's pin-down cache.
  std::uint64_t max_pinned_bytes = std::uint64_t{1} << 30U;
  /// Registrations are kept only while the kernel tells of pages that go away; false: as if it could not.
  bool watch_pages = true;
};

/// Counters, for metrics and tests.
class OfiModule : public Module {
 public:
  virtual OfiCounters counters() const = 0;
  /// Of all endpoints together.
  virtual PinCounters pin_counters() const = 0;
};

/// `clock` outlives the module.
std::unique_ptr<OfiModule> make_ofi_module(const Clock& clock, OfiOptions options = {});

}  // namespace spate::bmi::ofi
