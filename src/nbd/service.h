// SPDX-License-Identifier: Apache-2.0
// The block service. `spate export` and a server with the role block run it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "nbd/options.h"

namespace spate::nbd {

/// Called when clients can connect, with the URLs of each source in their order.
using Serving = std::function<void(const std::vector<std::string>& urls)>;

/// Serves in this thread (and options.threads - 1 others) until the descriptor `ends` is readable, then answers running
/// requests for some seconds. The error says why it cannot serve, or which data was not durable at the end. The caller
/// must ignore SIGPIPE.
Result<void> serve_exports(const ExportOptions& options, int ends, const Serving& serving);

}  // namespace spate::nbd
