// SPDX-License-Identifier: Apache-2.0
// `spate coord min`: how many meta servers must hold a change before it is answered.
#pragma once

#include <string>

#include "tools/context.h"

namespace spate::tools {

/// Writes the number into the coordinator's record of the meta servers. An empty word: shows the record's number.
/// Returns the exit code.
int min_copies_of_names(Context& context, const std::string& word);

}  // namespace spate::tools
