// SPDX-License-Identifier: Apache-2.0
// `spate up`, `spate down`, `spate status`, `spate ping`.
#pragma once

#include "tools/command.h"

namespace spate::tools {

/// Where a file system is when nobody says: $XDG_DATA_HOME/spate, or ~/.local/share/spate.
std::string default_folder();

Command make_up();
Command make_down();
Command make_status();
Command make_ping();

}  // namespace spate::tools
