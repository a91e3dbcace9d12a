// SPDX-License-Identifier: Apache-2.0
// `spate server lost`: lets older copies of mirrored data lead when the servers with the newest ones are gone for good.
#pragma once

#include <string>
#include <vector>

#include "tools/context.h"

namespace spate::tools {

/// `numbers`: the io servers that are gone for good, as the user typed them. Without `accept_loss` it only says what
/// would be lost, and fails if there is something. Returns the exit code.
int lose_servers(Context& context, const std::vector<std::string>& numbers, bool accept_loss);

}  // namespace spate::tools
