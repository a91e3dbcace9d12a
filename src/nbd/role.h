// SPDX-License-Identifier: Apache-2.0
// What a server with the role block exports, as its spate.toml says.
#pragma once

#include "nbd/options.h"

namespace spate::nbd {

/// The options of `given` (its file system, settings and server) with what the sections [block] and [[exports]] say;
/// sets up the log as that server's. kNotFound: no such server; kInvalidArgument: it has not the role, or the file is
/// wrong.
Result<ExportOptions> options_of_server(const ExportOptions& given);

}  // namespace spate::nbd
