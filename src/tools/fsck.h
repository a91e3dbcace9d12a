// SPDX-License-Identifier: Apache-2.0
// Connects the checks of src/fsck with the command's client.
#pragma once

#include "fsck/servers.h"
#include "tools/command.h"

namespace spate::tools {

/// Options for a process that was opened with the server key.
fsck::ServersOptions servers_options(client::Session& session);

}  // namespace spate::tools
