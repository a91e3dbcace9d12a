// SPDX-License-Identifier: Apache-2.0
// Which spate-broker an open file belongs to, and requests to it.
#pragma once

#include "preload/broker_link.h"
#include "preload/descriptors.h"

namespace spate::preload {

/// The broker of an open file (BrokerPlace::id): where it has been before, else that of this program's settings.
Result<std::uint64_t> broker_of(Description& description);
/// Asks that one about the file. `descriptor`: any of it, -1: the broker need not know which open file it is.
Result<BrokerReply> ask_about(Description& description, int descriptor, const BrokerRequest& request);

}  // namespace spate::preload
