// SPDX-License-Identifier: Apache-2.0
// SlowRequests: counts and logs requests that have taken long.
#pragma once

#include "job/network.h"
#include "log/rate_limit.h"
#include "metrics/metrics.h"
#include "rpc/call.h"

namespace spate::rpc {

/// One for each server. At most ten lines a second. The lines of a request, and of the requests that it caused at other
/// servers, have the same trace id. One executor.
class SlowRequests {
 public:
  /// `least`: a request that takes at least this long is slow; 0: none is.
  SlowRequests(Duration least, job::NetworkContext& network, metrics::Registry& metrics)
      : least_(least),
        network_(network),
        count_(metrics, "spate_rpc_slow_total"),
        lines_(network.executor().clock(), std::chrono::milliseconds(100)) {}

  /// A request whose handler began at `begun` and has just ended.
  void note(const Call& call, MonoTime begun, Errc status);

 private:
  const Duration least_;
  job::NetworkContext& network_;
  metrics::Counter count_;
  log::RateLimit lines_;
};

}  // namespace spate::rpc
