// SPDX-License-Identifier: Apache-2.0
// Chooses the folder of a server's keyval store.
#pragma once

#include <string>

#include "config/filesystem_config.h"

namespace spate::assembly {

/// The folder that spate.toml names; else the first storage folder's name with ".keyval" appended. If the storage
/// folder is a mount point, it is "keyval" inside that folder, since a sibling of a mount point is on another disk. A
/// store that already exists is used where it is.
std::string keyval_folder(const config::ServerConfig& server);

}  // namespace spate::assembly
