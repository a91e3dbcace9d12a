// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/process.h"

#include "bmi/sim/fabric.h"
#include "bmi/sim/network_interface.h"

namespace spate::cluster {
namespace {

job::ExecutorOptions shuffled(Random& random) {
  job::ExecutorOptions options;
  options.shuffle = &random;
  return options;
}

bmi::NetworkOptions network_options(const ConnectTimes& times, const bmi::UnauthenticatedPeerLimits& limits) {
  bmi::NetworkOptions options;
  options.connect_timeout_ms = times.timeout_ms;
  options.unauthenticated = limits;
  if (limits.apply()) options.unauthenticated.deadline_ms = times.unauthenticated_deadline_ms;
  return options;
}

}  // namespace

bmi::UnauthenticatedPeerLimits unauthenticated_limits() {
  bmi::UnauthenticatedPeerLimits limits;
  limits.deadline_ms = ConnectTimes().unauthenticated_deadline_ms;
  return limits;
}

Process::Process(Ether ether, std::uint32_t node, std::uint64_t seed,
                 const bmi::UnauthenticatedPeerLimits& unauthenticated_peers)
    : ether_(ether), node_(node), random_(seed), clock_(ether.clock), executor_(clock_, shuffled(random_)) {
  std::vector<std::unique_ptr<bmi::Module>> modules;
  for (std::uint32_t path = 0; path < 2; ++path) modules.push_back(bmi::sim::attach(ether_.fabric, node, path));
  network_ = bmi::make_network(std::move(modules), network_options(ether_.connect, unauthenticated_peers));
  context_ = std::make_unique<job::NetworkContext>(*network_, executor_);
}

std::vector<std::string> urls_of(std::uint32_t node) {
  return {bmi::sim::url_of({node, 0}), bmi::sim::url_of({node, 1})};
}

}  // namespace spate::cluster
