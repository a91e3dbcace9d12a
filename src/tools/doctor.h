// SPDX-License-Identifier: Apache-2.0
// `spate doctor`: looks at the machine that it runs on for what will hurt a file system, before it does.
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_doctor();

}  // namespace spate::tools
