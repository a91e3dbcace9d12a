// SPDX-License-Identifier: Apache-2.0
// The limit of open files and connections of this process.
#pragma once

#include "base/result.h"

namespace spate::daemon {

/// Raises the soft limit to the hard one: each client takes a few descriptors, each datafile in use one. kNotSupported
/// when even that is too few to serve; the message says what to raise.
Result<void> raise_descriptor_limit();

}  // namespace spate::daemon
