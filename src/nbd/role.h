// SPDX-License-Identifier: Apache-2.0
// The exports of a server with the role block, from its spate.toml.
#pragma once

#include "nbd/options.h"

namespace spate::nbd {

/// Completes `given` (its file system, settings and server) with the sections [block] and [[exports]]; sets up the log
/// as that server's. kNotFound: no such server; kInvalidArgument: it does not have the role, or the file has mistakes.
Result<ExportOptions> options_of_server(const ExportOptions& given);

}  // namespace spate::nbd
