// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics_page.h"

namespace spate::daemon {
namespace {

http::Response answer(const http::Request& request, const metrics::Registry& registry,
                      const std::function<bool()>& healthy) {
  http::Response response;
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  if (request.path() == "/metrics") {
    response.body = registry.snapshot().prometheus();
  } else if (request.path() == "/healthz") {
    const bool well = healthy();
    response.status = well ? 200 : 503;
    response.body = well ? "ok\n" : "not serving\n";
  } else {
    response.status = 404;
    response.body = "there are /metrics and /healthz\n";
  }
  return response;
}

}  // namespace

Result<std::unique_ptr<http::Server>> start_metrics_page(const std::string& address, const metrics::Registry& registry,
                                                         std::function<bool()> healthy) {
  http::Options options;
  options.address = address;
  options.what = "metrics";
  return http::Server::start(options, [&registry, healthy = std::move(healthy)](const http::Request& request) {
    return answer(request, registry, healthy);
  });
}

}  // namespace spate::daemon
