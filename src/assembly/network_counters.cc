// SPDX-License-Identifier: Apache-2.0
#include "assembly/network_counters.h"

namespace spate::assembly {

NetworkCounters::NetworkCounters(metrics::Registry& metrics, const bmi::Network& network) {
  const std::vector<bmi::NetworkCount> counts = network.counts();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counters_.emplace_back(metrics, "spate_bmi_" + std::string(counts[i].name) + "_total",
                           metrics::Labels{{"module", std::string(counts[i].module)}},
                           [&network, i] { return network.counts().at(i).value; });
  }
}

}  // namespace spate::assembly
