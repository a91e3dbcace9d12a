// SPDX-License-Identifier: Apache-2.0
// attach(): puts a process into a simulated network.
#pragma once

#include <cstdint>
#include <memory>

#include "bmi/module.h"
#include "bmi/sim/fabric.h"

namespace spate::bmi::sim {

/// Makes the module of a process on `node`, with the URL "sim://<node>", or "sim<path + 1>://<node>". The place must be
/// free: it was never used, or its module was killed or destroyed. A destroyed module leaves the network as
/// Death::kProcess does.
std::unique_ptr<Module> attach(Fabric& fabric, std::uint32_t node, std::uint32_t path = 0);

}  // namespace spate::bmi::sim
