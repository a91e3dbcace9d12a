// SPDX-License-Identifier: Apache-2.0
// `spate coord restore`: recreates the coordinator's record of the meta servers from the stores of the meta servers.
#pragma once

#include <string>
#include <vector>

#include "tools/context.h"

namespace spate::tools {

/// `without`: numbers of meta servers that are lost for good, as the user typed them. Returns the exit code.
int restore_record(Context& context, const std::vector<std::string>& without);

}  // namespace spate::tools
