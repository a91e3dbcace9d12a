// SPDX-License-Identifier: Apache-2.0
// Starting and stopping the servers of a file system on this machine.
#pragma once

#include "tools/command.h"

namespace spate::tools {

/// The usual folder of a file system: $XDG_DATA_HOME/spate, or ~/.local/share/spate.
std::string default_folder();

/// Starts the file system in this folder, for `spate up` and `spate down --force`; returns the exit code.
int start_file_system(Context& context, const std::string& folder);
int stop_file_system(Context& context, const std::string& folder);

/// kBusy, naming the mounts, if the file system in this folder is mounted: its programs would wait until the servers
/// are back.
Result<void> check_no_mounts(const std::string& folder);

}  // namespace spate::tools
