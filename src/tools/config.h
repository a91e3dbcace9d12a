// SPDX-License-Identifier: Apache-2.0
// `spate config`.
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_config();

}  // namespace spate::tools
