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
  /// How long a peer or a device may still use a cancelled operation's memory before its session, or the endpoint, is
  /// closed.
  std::uint32_t cancel_grace_ms = 500;
  /// A peer to which nothing could be sent for this long is lost.
  std::uint32_t stuck_ms = 3000;
  /// A peer that has been silent for this long gets a ping. While no operation is posted, the time is ten times as
  /// long.
  std::uint32_t ping_ms = 2000;
  /// The most inbound peers that are connected, and the most that left and are remembered.
  std::uint32_t inbound_limit = 4096;
  std::uint32_t gone_peers_kept = 1024;
  /// The largest packet, header included, in bytes; and the number of packets that each endpoint has posted for
  /// receiving.
  std::uint32_t packet_bytes = 16128;
  std::uint32_t receive_packets = 128;
  /// The most memory that each endpoint's pin-down cache registers at a time.
  std::uint64_t max_pinned_bytes = std::uint64_t{1} << 30U;
  /// false: the module acts as if the kernel did not report pages that go away, and keeps no registration.
  bool watch_pages = true;
};

/// Counters, for metrics and tests.
class OfiModule : public Module {
 public:
  virtual OfiCounters counters() const = 0;
  /// The sum over all endpoints.
  virtual PinCounters pin_counters() const = 0;
};

/// `clock` outlives the module.
std::unique_ptr<OfiModule> make_ofi_module(const Clock& clock, OfiOptions options = {});

}  // namespace spate::bmi::ofi
