// SPDX-License-Identifier: Apache-2.0
// SpaceGauges: the space of a server's stores as metrics, for example spate_trove_free_bytes{store="target 512"}.
#pragma once

#include <deque>
#include <string>

#include "metrics/metrics.h"

namespace spate::assembly {

/// Asks the local file system at each read of the registry, not the store, whose functions belong to the executor's
/// thread. It is destroyed before the registry.
class SpaceGauges {
 public:
  explicit SpaceGauges(metrics::Registry& metrics) : metrics_(metrics) {}
  /// `folder` holds the store and must stay where it is. `store` is the store's name in the metrics. If the folder can
  /// no longer be examined, all of its gauges are 0.
  void watch(const std::string& store, const std::string& folder);

 private:
  metrics::Registry& metrics_;
  std::deque<metrics::GaugeOf> gauges_;
};

}  // namespace spate::assembly
