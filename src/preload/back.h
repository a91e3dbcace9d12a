// SPDX-License-Identifier: Apache-2.0
// The back's access to the front (front.h) and to the kernel.
#pragma once

#include "preload/front.h"
#include "preload/raw.h"

namespace spate::preload {

/// Set before anything else of the back runs.
const Front& front();

/// A signal has come since the call began, and waits for its end.
bool signal_waits();

/// The mode of what is made, without the bits of the program's umask.
unsigned with_umask(unsigned mode);

}  // namespace spate::preload
