// SPDX-License-Identifier: Apache-2.0
// Starts spate-broker from within any program.
#pragma once

#include "preload/mounts.h"

namespace spate::preload {

/// Listens at the place and starts the broker, which takes over the listening socket. Does nothing if a broker listens
/// there already. The program does not see a child process or a signal.
Result<void> start_broker(const BrokerPlace& place);

}  // namespace spate::preload
