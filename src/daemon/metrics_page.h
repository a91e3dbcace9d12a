// SPDX-License-Identifier: Apache-2.0
// A server's HTTP page: /metrics for Prometheus, /healthz for a program that restarts dead servers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "http/server.h"
#include "metrics/metrics.h"

namespace spate::daemon {

/// Serves it to every client that can reach the address, as in http::Options. `healthy`: called by the page's thread,
/// at each /healthz. The registry stays until the page is destroyed.
Result<std::unique_ptr<http::Server>> start_metrics_page(const std::string& address, const metrics::Registry& registry,
                                                         std::function<bool()> healthy);

}  // namespace spate::daemon
