// SPDX-License-Identifier: Apache-2.0
// Starting spate-broker from within any program.
#pragma once

#include "preload/mounts.h"

namespace spate::preload {

/// Listens for the place and starts the program that goes on with that. Nothing when somebody listens there
/// already. The program that this is in has no child of it, and no signal.
Result<void> start_broker(const BrokerPlace& place);

}  // namespace spate::preload
