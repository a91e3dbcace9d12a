// SPDX-License-Identifier: Apache-2.0
// `spate export`.
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_export();

}  // namespace spate::tools
