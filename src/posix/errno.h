// SPDX-License-Identifier: Apache-2.0
// Converts Spate's errors to POSIX's.
#pragma once

#include "base/error.h"

namespace spate::posix {

/// The errno for `code`; 0 only for kOk. Errors that a program cannot act on become EIO.
int to_errno(Errc code);

}  // namespace spate::posix
