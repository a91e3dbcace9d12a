// SPDX-License-Identifier: Apache-2.0
// attach(): puts a process into a simulated world.
#pragma once

#include <cstdint>
#include <memory>

#include "bmi/module.h"
#include "bmi/sim/fabric.h"

namespace spate::bmi::sim {

/// The module of a process on `node`: "sim://<node>", or "sim<path + 1>://<node>". The place must be free: never used,
/// or its module killed or destroyed. Destroying a module ends its process's part as Death::kProcess does.
std::unique_ptr<Module> attach(Fabric& fabric, std::uint32_t node, std::uint32_t path = 0);

}  // namespace spate::bmi::sim
