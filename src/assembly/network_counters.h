// SPDX-License-Identifier: Apache-2.0
// NetworkCounters: the counters of the network modules as metrics, for example
// spate_bmi_sent_bytes_total{module="tcp"}.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "bmi/network.h"
#include "metrics/metrics.h"

namespace spate::assembly {

/// It is destroyed before the network and the registry.
class NetworkCounters {
 public:
  NetworkCounters(metrics::Registry& metrics, const bmi::Network& network) {
    const std::vector<bmi::NetworkCount> counts = network.counts();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      counters_.emplace_back(metrics, "spate_bmi_" + std::string(counts[i].name) + "_total",
                             metrics::Labels{{"module", std::string(counts[i].module)}},
                             [&network, i] { return network.counts().at(i).value; });
    }
  }

 private:
  std::deque<metrics::CounterOf> counters_;
};

}  // namespace spate::assembly
