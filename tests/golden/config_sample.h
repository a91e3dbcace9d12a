// SPDX-License-Identifier: Apache-2.0
// The configuration that v1/stored/spate.toml was written from: every key but those with one value only.
#pragma once

#include "config/filesystem_config.h"

namespace spate::golden {

config::FileSystemConfig sample_config();

}  // namespace spate::golden
