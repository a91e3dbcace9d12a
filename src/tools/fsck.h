// SPDX-License-Identifier: Apache-2.0
// `spate fsck`: the face of src/fsck.
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_fsck();

}  // namespace spate::tools
