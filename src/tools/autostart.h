// SPDX-License-Identifier: Apache-2.0
// Starts a file system of `spate up` at login, by a unit of the user's service manager.
#pragma once

#include <string>

#include "base/result.h"

namespace spate::tools {

/// "spate-srv-data.service" for /srv/data, escaped as systemd-escape(1) does.
std::string unit_name(const std::string& folder);
/// Writes the unit and enables it with systemctl(1). If that fails, a new unit is removed again.
Result<void> enable_autostart(const std::string& folder);
/// Disables and removes the unit; nothing if there is none.
void disable_autostart(const std::string& folder);

}  // namespace spate::tools
