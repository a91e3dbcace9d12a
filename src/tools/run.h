// SPDX-License-Identifier: Apache-2.0
// `spate run`, `spate check-binary`: unchanged programs with the preload library (docs/preload.md).
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_run();
Command make_check_binary();

}  // namespace spate::tools
