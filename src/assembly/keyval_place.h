// SPDX-License-Identifier: Apache-2.0
// Where a server keeps its keyval store.
#pragma once

#include <string>

#include "config/filesystem_config.h"

namespace spate::assembly {

/// The folder that spate.toml names; else the first storage folder with ".keyval" appended, beside it. If that folder
/// is a mount point, "keyval" inside it: what lies beside a mount point is on another disk. A store that is there
/// already is used where it is.
std::string keyval_folder(const config::ServerConfig& server);

}  // namespace spate::assembly
