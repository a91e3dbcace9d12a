// SPDX-License-Identifier: Apache-2.0
// `spate mount`, `spate umount`.
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_mount();
Command make_umount();

}  // namespace spate::tools
