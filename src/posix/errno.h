// SPDX-License-Identifier: Apache-2.0
// The edge between Spate's errors and POSIX's.
#pragma once

#include "base/error.h"

namespace spate::posix {

/// The errno that says the same as `code`, never 0 but for kOk. What a program cannot act on is EIO.
int to_errno(Errc code);

}  // namespace spate::posix
