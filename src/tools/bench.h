// SPDX-License-Identifier: Apache-2.0
// `spate bench`: how fast this file system is from here, beside what the machine itself can do.
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_bench();

}  // namespace spate::tools
