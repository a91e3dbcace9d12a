// SPDX-License-Identifier: Apache-2.0
// Settings that override spate.toml, from the environment and the command line.
#pragma once

#include <vector>

#include "config/load.h"
#include "nbd/options.h"

namespace spate::nbd {

Result<std::vector<config::Override>> settings_of(const ExportOptions& options);

}  // namespace spate::nbd
