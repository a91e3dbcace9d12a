// SPDX-License-Identifier: Apache-2.0
// The block service: exports served until they are to end. What `spate export` and a server with role block are.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "nbd/options.h"

namespace spate::nbd {

/// Called once clients are accepted, with the URLs of each source, in their order.
using Serving = std::function<void(const std::vector<std::string>& urls)>;

/// In this thread (and options.threads - 1 others) until the descriptor `ends` is readable; requests under way are
/// answered first, for some seconds. An error says why it cannot serve, or what was not durable at the end. SIGPIPE
/// must be ignored.
Result<void> serve_exports(const ExportOptions& options, int ends, const Serving& serving);

}  // namespace spate::nbd
