// SPDX-License-Identifier: Apache-2.0
// NetworkCounters: the counters of the network modules as metrics, for example
// spate_bmi_sent_bytes_total{module="tcp"}.
#pragma once

#include <deque>

#include "bmi/network.h"
#include "metrics/metrics.h"

namespace spate::assembly {

/// Destroyed before the network and the registry.
class NetworkCounters {
 public:
  NetworkCounters(metrics::Registry& metrics, const bmi::Network& network);

 private:
  std::deque<metrics::CounterOf> counters_;
};

}  // namespace spate::assembly
