// SPDX-License-Identifier: Apache-2.0
// Start of a file system of `spate up` at login, by a unit of the user's service manager.
#pragma once

#include <string>

#include "base/result.h"

namespace spate::tools {

/// "spate-srv-data.service": of /srv/data, escaped as systemd-escape(1) does it.
std::string unit_name(const std::string& folder);
/// Writes the unit and enables it with systemctl(1). On failure no unit is left that was not there before.
Result<void> enable_autostart(const std::string& folder);
/// Disables and removes the unit; nothing if there is none.
void disable_autostart(const std::string& folder);

}  // namespace spate::tools
