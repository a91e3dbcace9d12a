// SPDX-License-Identifier: Apache-2.0
#include "flow/counters.h"

namespace spate::flow {

Counters::Pair::Pair(metrics::Registry& registry, const metrics::Labels& labels)
    : bytes(registry, "spate_flow_bytes_total", labels),
      copied(registry, "spate_flow_copied_bytes_total", labels),
      fallbacks(registry, "spate_flow_fallbacks_total", labels) {}

Counters::Counters(metrics::Registry& registry) {
  constexpr std::array<const char*, 2> kDirections = {"read", "write"};
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const std::string_view path = i / 2 == 0 ? "inline" : wire::kDataPathNames[i / 2];
    const metrics::Labels labels{{"path", std::string(path)}, {"direction", kDirections[i % 2]}};
    pairs_[i] = std::make_unique<Pair>(registry, labels);
  }
  for (std::size_t i = 0; i < registered_.size(); ++i) {
    registered_[i] = std::make_unique<metrics::Counter>(registry, "spate_flow_registered_bytes_total",
                                                        metrics::Labels{{"direction", kDirections[i]}});
  }
}

}  // namespace spate::flow
