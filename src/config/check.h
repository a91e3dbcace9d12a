// SPDX-License-Identifier: Apache-2.0
// Checks relations between keys. Private to this folder.
#pragma once

#include <vector>

#include "config/check_parts.h"
#include "config/filesystem_config.h"

namespace spate::config {

/// All mistakes; empty if the config can be used.
std::vector<Problem> check(const FileSystemConfig& config);

}  // namespace spate::config
