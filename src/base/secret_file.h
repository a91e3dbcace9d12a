// SPDX-License-Identifier: Apache-2.0
// Whether a file that holds a secret is kept as one.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace spate {

/// Bits that the mode of a private key may not have: a group may read it, so that a service of its own user can.
inline constexpr mode_t kBeyondGroupReading = 0037;

/// kPermissionDenied if the file's mode has one of the bits `others_may_not`, or if the file belongs to a user other
/// than root and this process's user, since its owner could change it. The error names the file.
Result<void> check_secret_file(const std::string& file, mode_t others_may_not);

}  // namespace spate
