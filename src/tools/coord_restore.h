// SPDX-License-Identifier: Apache-2.0
// `spate coord restore`: the coordinator's record of the meta servers, made anew from what they hold.
#pragma once

#include <string>
#include <vector>

#include "tools/context.h"

namespace spate::tools {

/// `without`: numbers of meta servers that are gone for good, as typed. Returns the exit code.
int restore_record(Context& context, const std::vector<std::string>& without);

}  // namespace spate::tools
