// SPDX-License-Identifier: Apache-2.0
#include "tests/bmi/sim_world.h"

#include <utility>

#include "bmi/sim/fabric.h"
#include "bmi/sim/network_interface.h"

namespace spate::bmi::conformance {
namespace {

sim::FabricOptions restless() {
  sim::FabricOptions options;
  options.link.jitter = std::chrono::microseconds(200);
  options.link.slow_per_mille = 20;
  options.chunk_bytes = 32 * 1024;
  return options;
}

}  // namespace

SimWorld::SimWorld(Wrap wrap, std::uint64_t seed)
    : random_(seed), fabric_(clock_, random_, restless()), wrap_(std::move(wrap)) {}

Traits SimWorld::traits() const {
  Traits traits;
  traits.threads = false;
  traits.virtual_time = true;
  return traits;
}

std::unique_ptr<Network> SimWorld::make(std::uint32_t node, const NetworkOptions& options) {
  std::vector<std::unique_ptr<Module>> modules;
  modules.push_back(bmi::sim::attach(fabric_, node));
  if (wrap_) modules.back() = wrap_(std::move(modules.back()));
  return make_network(std::move(modules), options);
}

World::Place SimWorld::start(const NetworkOptions& options) {
  const std::uint32_t node = ++nodes_;
  return {make(node, options), sim::url_of({node, 0})};
}

std::unique_ptr<Network> SimWorld::restart(const std::string& url, const NetworkOptions& options) {
  return make(sim::parse_url(url)->node, options);
}

bool SimWorld::wait(std::span<const Waiter> /*waiters*/) { return fabric_.deliver_next(); }

}  // namespace spate::bmi::conformance
