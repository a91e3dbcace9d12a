// SPDX-License-Identifier: Apache-2.0
// poll and ppoll on descriptors, some of which are files of Spate.
#pragma once

#include "preload/front.h"

namespace spate::preload {

/// Handles poll and ppoll. Files are always ready. The kernel waits for the others, with the program's own signals
/// unblocked, so that a handler can end the wait. False: the kernel shall make the call as it is.
bool wait_for_any(Frame& frame);

}  // namespace spate::preload
