// SPDX-License-Identifier: Apache-2.0
// Refusals: counts and logs requests that no proper client of this file system sends.
#pragma once

#include <string_view>

#include "job/network.h"
#include "log/rate_limit.h"
#include "metrics/metrics.h"
#include "rpc/audit.h"
#include "rpc/call.h"

namespace spate::rpc {

/// One per server. All lines of the log together are limited to one in 10 s; the audit log has limits of its own. One
/// executor.
class Refusals {
 public:
  Refusals(job::NetworkContext& network, metrics::Registry& metrics, Audit& audit)
      : network_(network.network()),
        audit_(audit),
        count_(metrics, "spate_rpc_refused_total"),
        lines_(network.executor().clock()) {}

  /// Notes a request that is answered with `error`.
  void note(const Call& call, const Error& error);
  /// Notes a peer whose connection the server ends.
  void note_dropped(const Peer& peer, std::string_view why);

 private:
  bmi::Network& network_;
  Audit& audit_;
  metrics::Counter count_;
  log::RateLimit lines_;
};

}  // namespace spate::rpc
