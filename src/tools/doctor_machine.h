// SPDX-License-Identifier: Apache-2.0
// The machine that `spate doctor` runs on, as its checks see it.
#pragma once

#include <functional>
#include <memory>

#include "tools/doctor_checks.h"

namespace spate::tools {

/// This machine. `answers`: whether that server of the file system answers at its addresses.
std::unique_ptr<Machine> system_machine(std::function<bool(const config::ServerConfig&)> answers);

}  // namespace spate::tools
