// SPDX-License-Identifier: Apache-2.0
// NetworkCounters: what the network modules count, as metrics: spate_bmi_sent_bytes_total{module="tcp"} and its like.
#pragma once

#include <deque>

#include "bmi/network.h"
#include "metrics/metrics.h"

namespace spate::assembly {

/// Dies before both.
class NetworkCounters {
 public:
  NetworkCounters(metrics::Registry& metrics, const bmi::Network& network);

 private:
  std::deque<metrics::CounterOf> counters_;
};

}  // namespace spate::assembly
