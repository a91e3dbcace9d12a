// SPDX-License-Identifier: Apache-2.0
#include "flow/counters.h"

namespace spate::flow {

Lane lane_of(wire::DataPath path) {
  switch (path) {
    case wire::DataPath::kBuffered: return Lane::kBuffered;
    case wire::DataPath::kCached: return Lane::kCached;
    case wire::DataPath::kDirect: return Lane::kDirect;
    case wire::DataPath::kBypass: return Lane::kBypass;
    case wire::DataPath::kPeerToPeer: return Lane::kPeer;
    case wire::DataPath::kAutomatic: break;
  }
  return Lane::kInline;
}

Counters::Pair::Pair(metrics::Registry& registry, const metrics::Labels& labels)
    : bytes(registry, "spate_flow_bytes_total", labels),
      copied(registry, "spate_flow_copied_bytes_total", labels),
      fallbacks(registry, "spate_flow_fallbacks_total", labels) {}

Counters::Counters(metrics::Registry& registry) {
  constexpr std::array<const char*, 6> kLanes = {"inline", "buffered", "cached", "direct", "bypass", "p2p"};
  constexpr std::array<const char*, 2> kDirections = {"read", "write"};
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const metrics::Labels labels{{"path", kLanes[i / 2]}, {"direction", kDirections[i % 2]}};
    pairs_[i] = std::make_unique<Pair>(registry, labels);
  }
  for (std::size_t i = 0; i < registered_.size(); ++i) {
    registered_[i] = std::make_unique<metrics::Counter>(registry, "spate_flow_registered_bytes_total",
                                                        metrics::Labels{{"direction", kDirections[i]}});
  }
}

}  // namespace spate::flow
