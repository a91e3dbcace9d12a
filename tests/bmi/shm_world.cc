// SPDX-License-Identifier: Apache-2.0
#include "tests/bmi/shm_world.h"

#include <utility>

#include "bmi/shm/shm_module.h"

namespace spate::bmi::conformance {

Traits ShmWorld::traits() const {
  Traits traits;
  // The bytes that the lanes of one direction hold.
  const shm::ShmOptions options;
  for (const shm::LaneSize& lane : options.geometry.lanes) traits.transit_bytes += lane.bytes;
  return traits;
}

World::Place ShmWorld::start(const NetworkOptions& options) { return {restart({}, options), "shm://*"}; }

std::unique_ptr<Network> ShmWorld::restart(const std::string& /*url*/, const NetworkOptions& options) {
  std::vector<std::unique_ptr<Module>> modules;
  modules.push_back(shm::make_shm_module(clock_));
  if (wrap_) modules.back() = wrap_(std::move(modules.back()));
  return make_network(std::move(modules), options);
}

}  // namespace spate::bmi::conformance
