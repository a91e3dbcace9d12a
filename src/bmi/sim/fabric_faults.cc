// SPDX-License-Identifier: Apache-2.0
// Fabric: faults that a test orders.
#include <utility>

#include "bmi/sim/fabric.h"

namespace spate::bmi::sim {

void Fabric::kill_node(std::uint32_t node, Death death) {
  std::vector<std::pair<NetworkInterface, Endpoint*>> victims;
  for (const auto& [interface, entered] : endpoints_) {
    if (interface.node == node) victims.emplace_back(interface, entered.endpoint);
  }
  for (const auto& [interface, endpoint] : victims) {
    close_all(*endpoint, death);
    endpoints_.erase(interface);
    endpoint->killed();
  }
}

void Fabric::drop_connection(std::uint32_t a, std::uint32_t b) {
  std::vector<std::uint64_t> broken;
  for (const auto& [id, connection] : connections_) {
    if (pair_of(connection.ends[0].interface.node, connection.ends[1].interface.node) == pair_of(a, b))
      broken.push_back(id);
  }
  for (const std::uint64_t id : broken) {
    for (std::uint32_t side = 0; side < 2; ++side) tell_lost({id, side});
  }
}

}  // namespace spate::bmi::sim
