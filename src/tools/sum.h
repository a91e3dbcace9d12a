// SPDX-License-Identifier: Apache-2.0
// `spate sum`.
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_sum();

}  // namespace spate::tools
