// SPDX-License-Identifier: Apache-2.0
// What the checks of src/fsck need of the servers of a file system.
#pragma once

#include "fsck/servers.h"
#include "tools/command.h"

namespace spate::tools {

/// Options for a process that was opened with the server key.
fsck::ServersOptions servers_options(client::Session& session);

}  // namespace spate::tools
