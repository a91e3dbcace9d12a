// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/attach.h"

#include "bmi/sim/sim_module.h"

namespace spate::bmi::sim {

std::unique_ptr<Module> attach(Fabric& fabric, std::uint32_t node, std::uint32_t path) {
  return std::make_unique<SimModule>(fabric, NetworkInterface{node, path});
}

}  // namespace spate::bmi::sim
