// SPDX-License-Identifier: Apache-2.0
// Logs that a device is full, and that it has room again.
#pragma once

#include "server/io/parts.h"

namespace spate::io {

/// Call it after a failed operation that takes space on this target. (A member of a group that refuses a change calls
/// it itself.) If the device is full, it logs that once, and logs again when there is room.
void note_if_full(Parts& parts, Target& target, Errc code);

}  // namespace spate::io
