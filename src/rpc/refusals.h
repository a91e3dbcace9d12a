// SPDX-License-Identifier: Apache-2.0
// Refusals: counts and logs what no proper client of this file system does.
#pragma once

#include <string_view>

#include "job/network.h"
#include "log/rate_limit.h"
#include "metrics/metrics.h"
#include "rpc/call.h"

namespace spate::rpc {

/// One for each server. All lines together are limited to one in 10 s. One executor.
class Refusals {
 public:
  Refusals(job::NetworkContext& network, metrics::Registry& metrics)
      : network_(network.network()), count_(metrics, "spate_rpc_refused_total"), lines_(network.executor().clock()) {}

  /// A request that is answered with `error`.
  void note(const Call& call, const Error& error);
  /// A peer whose connection is ended.
  void note_dropped(const Peer& peer, std::string_view why);

 private:
  bmi::Network& network_;
  metrics::Counter count_;
  log::RateLimit lines_;
};

}  // namespace spate::rpc
