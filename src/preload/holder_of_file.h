// SPDX-License-Identifier: Apache-2.0
// Which spate-holder an open file belongs to, and requests to it.
#pragma once

#include "preload/descriptors.h"
#include "preload/holder_link.h"

namespace spate::preload {

/// The holder of an open file (HolderPlace::id): where it has been before, else that of this program's settings.
Result<std::uint64_t> holder_of(Description& description);
/// Asks that one about the file. `descriptor`: any of it, -1: the holder need not know which open file it is.
Result<HoldReply> ask_about(Description& description, int descriptor, const HoldRequest& request);

}  // namespace spate::preload
