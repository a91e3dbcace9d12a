// SPDX-License-Identifier: Apache-2.0
// The configuration from which v1/stored/spate.toml was written: all keys except those with only one value.
#pragma once

#include "config/filesystem_config.h"

namespace spate::golden {

config::FileSystemConfig sample_config();

}  // namespace spate::golden
