// SPDX-License-Identifier: Apache-2.0
// `spate fsck`: the front end of src/fsck.
#pragma once

#include "fsck/servers.h"
#include "tools/command.h"

namespace spate::tools {

Command make_fsck();

/// For a process that was opened with the server key.
fsck::ServersOptions servers_options(client::Session& session);

}  // namespace spate::tools
