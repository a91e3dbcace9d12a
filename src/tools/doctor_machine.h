// SPDX-License-Identifier: Apache-2.0
// `spate doctor`: looks at the machine that it runs on for what will hurt a file system, before it does.
#pragma once

#include <functional>
#include <memory>

#include "tools/command.h"
#include "tools/doctor.h"

namespace spate::tools {

Command make_doctor();

/// This machine. `answers`: whether that server of the file system answers at its addresses.
std::unique_ptr<Machine> system_machine(std::function<bool(const config::ServerConfig&)> answers);

}  // namespace spate::tools
