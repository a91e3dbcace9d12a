// SPDX-License-Identifier: Apache-2.0
#include "tests/bmi/pipe_world.h"

#include <utility>

#include "bmi/pipe/pipe_module.h"

namespace spate::bmi::conformance {

Traits PipeWorld::traits() const {
  Traits traits;
  traits.transit_bytes = 1024 * 1024;  // more than the kernel holds in a Unix socket (net.core.wmem_default)
  return traits;
}

std::unique_ptr<Network> PipeWorld::restart(const std::string& /*url*/, const NetworkOptions& options) {
  std::vector<std::unique_ptr<Module>> modules;
  modules.push_back(pipe::make_pipe_module(clock_));
  if (wrap_) modules.back() = wrap_(std::move(modules.back()));
  return make_network(std::move(modules), options);
}

}  // namespace spate::bmi::conformance
