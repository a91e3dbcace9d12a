// SPDX-License-Identifier: Apache-2.0
// Starting and stopping the servers of a file system on this machine.
#pragma once

#include "tools/command.h"

namespace spate::tools {

/// Where a file system is when nobody says: $XDG_DATA_HOME/spate, or ~/.local/share/spate.
std::string default_folder();

/// What `spate up` and `spate down --force` do with the file system in this folder; the exit code.
int start_file_system(Context& context, const std::string& folder);
int stop_file_system(Context& context, const std::string& folder);

/// kBusy, naming them, when the file system in this folder is mounted: programs would wait until the servers are back.
Result<void> check_no_mounts(const std::string& folder);

}  // namespace spate::tools
