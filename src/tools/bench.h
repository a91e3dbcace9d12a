// SPDX-License-Identifier: Apache-2.0
// `spate bench`: the speed of this file system from this machine, beside the limits of the machine itself.
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_bench();

}  // namespace spate::tools
