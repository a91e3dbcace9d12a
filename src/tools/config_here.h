// SPDX-License-Identifier: Apache-2.0
// Which servers of a configuration are this machine's.
#pragma once

#include "config/filesystem_config.h"
#include "tools/command.h"

namespace spate::tools {

/// Whether an address of the server is this machine's, or all its addresses are names that every machine has (shm).
bool belongs_here(const config::ServerConfig& server);

/// Prints the servers whose addresses are this machine's, one a line: number and folders of stores, separated by tabs.
int show_servers_here(Context& context, const config::FileSystemConfig& config);

}  // namespace spate::tools
