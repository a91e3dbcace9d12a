// SPDX-License-Identifier: Apache-2.0
// How many files and connections this process may have open.
#pragma once

#include "base/result.h"

namespace spate::daemon {

/// Raises the soft limit to the hard one: each client is a few descriptors, each datafile in use one. kNotSupported
/// when even that is too few to serve; the message says what to raise.
Result<void> raise_descriptor_limit();

}  // namespace spate::daemon
