// SPDX-License-Identifier: Apache-2.0
// `spate up`, `spate down`, `spate restart`, `spate status`, `spate logs`, `spate ping`,
// `spate list`, `spate destroy`, `spate server`.
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

Command make_up();
Command make_down();
Command make_restart();
Command make_logs();
Command make_status();
Command make_ping();
Command make_list();
Command make_destroy();
Command make_server();

}  // namespace spate::tools
