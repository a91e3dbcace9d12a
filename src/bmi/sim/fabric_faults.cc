// SPDX-License-Identifier: Apache-2.0
// Fabric: faults on order.
#include <utility>

#include "bmi/sim/fabric.h"

namespace spate::bmi::sim {

void Fabric::kill_node(std::uint32_t node, Death death) {
  std::vector<std::pair<Place, Endpoint*>> victims;
  for (const auto& [place, entered] : endpoints_) {
    if (place.node == node) victims.emplace_back(place, entered.endpoint);
  }
  for (const auto& [place, endpoint] : victims) {
    close_all(*endpoint, death);
    endpoints_.erase(place);
    endpoint->killed();
  }
}

void Fabric::drop_connection(std::uint32_t a, std::uint32_t b) {
  std::vector<std::uint64_t> broken;
  for (const auto& [id, connection] : connections_) {
    if (pair_of(connection.ends[0].place.node, connection.ends[1].place.node) == pair_of(a, b)) broken.push_back(id);
  }
  for (const std::uint64_t id : broken) {
    for (std::uint32_t side = 0; side < 2; ++side) tell_lost({id, side});
  }
}

void Fabric::partition(std::uint32_t a, std::uint32_t b, bool on) {
  partition_one_way(a, b, on);
  partition_one_way(b, a, on);
}

void Fabric::partition_one_way(std::uint32_t from, std::uint32_t to, bool on) {
  if (on) {
    cut_.emplace(from, to);
    return;
  }
  cut_.erase({from, to});
  release_held();
}

void Fabric::stall(std::uint32_t path, bool on) {
  if (on) {
    stalled_.insert(path);
    return;
  }
  stalled_.erase(path);
  release_held();
}

void Fabric::release_held() {
  std::vector<Held> held = std::exchange(held_, {});
  for (Held& item : held) {
    if (blocked(item.from, item.to)) {
      held_.push_back(std::move(item));
    } else {
      travel(item.from, item.to, clock_.now(), std::move(item.arrive));
    }
  }
}

}  // namespace spate::bmi::sim
