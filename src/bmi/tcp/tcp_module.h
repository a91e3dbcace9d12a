// SPDX-License-Identifier: Apache-2.0
// TcpModule: bmi over TCP. What goes over the wire: docs/wire-tcp.md.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "bmi/module.h"
#include "bmi/tcp/counters.h"
#include "tls/stream.h"

namespace spate::bmi::tcp {

struct TcpOptions {
  /// Bulk connections of each pair of processes, 1 to kMaxBulkConnections. All messages of one tag use the same one.
  unsigned bulk_connections = 1;
  /// Messages per class that a peer may announce without this side having posted their receives.
  std::uint32_t max_announced = 8192;
  /// Bytes of bulk data, read or written, between two looks at the control connections; 16 KiB or more. `slice_bytes`
  /// holds while control messages come and go, the other value while there are none. A stream of 1 MiB messages in
  /// slices of 64, 128 and 512 KiB reaches 0.88, 0.9 and 0.99 of its speed without slices; a round trip beside it takes
  /// 0.09 and 0.16 ms with slices of 64 and 128 KiB (bench/run bmi figure4, priority).
  std::uint32_t slice_bytes = 128 * 1024;
  std::uint32_t quiet_slice_bytes = 1024 * 1024;
  /// How many bytes may wait unsent in the kernel for a bulk connection; 0: the kernel decides.
  std::uint32_t notsent_lowat_bytes = 1024 * 1024;
  /// A cancelled send that has begun to leave may take this long before its connection is dropped.
  std::uint32_t cancel_grace_ms = 500;
  /// Whether large bulk messages leave from the sender's memory without a copy (MSG_ZEROCOPY).
  enum class Lend : std::uint8_t {
    kNever,
    kAuto,    // to other machines, until the kernel reports that a connection's device copies anyway
    kAlways,  // for tests: on one machine the kernel copies
  };
  Lend lend = Lend::kAuto;
  /// For tcp+tls:// URLs; null: there are none. Only this module uses it.
  std::shared_ptr<tls::Context> tls;
  /// How many inbound peers that left are remembered, so that they get the same address when they come back.
  std::uint32_t gone_peers_kept = 1024;
};

/// Counters, for metrics and tests.
class TcpModule : public Module {
 public:
  virtual TcpCounters counters() const = 0;
};

/// `clock` outlives the module.
std::unique_ptr<TcpModule> make_tcp_module(const Clock& clock, TcpOptions options = {});

}  // namespace spate::bmi::tcp
