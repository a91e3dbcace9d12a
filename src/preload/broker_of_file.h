// SPDX-License-Identifier: Apache-2.0
// Finds the spate-broker of an open file, and sends requests about it.
#pragma once

#include "preload/broker_link.h"
#include "preload/descriptors.h"

namespace spate::preload {

/// The broker of an open file (BrokerPlace::id): the one that has it already, else the one of this program's settings.
Result<std::uint64_t> broker_of(Description& description);
/// Sends a request to that broker. `descriptor`: any of the file's; -1: the broker need not know which open file it is.
Result<BrokerReply> ask_about(Description& description, int descriptor, const BrokerRequest& request);

}  // namespace spate::preload
