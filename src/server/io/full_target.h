// SPDX-License-Identifier: Apache-2.0
// What the log says of a device without room.
#pragma once

#include "server/io/parts.h"

namespace spate::io {

/// After a failed operation that takes room: if the device is full, the log says so, once, and again when there is
/// room.
void note_if_full(Parts& parts, Target& target, Errc code);

}  // namespace spate::io
