// SPDX-License-Identifier: Apache-2.0
// Replaces metrics_page.cc in builds without libmicrohttpd.
#include "daemon/metrics_page.h"

namespace spate::daemon {

MetricsPage::MetricsPage(const metrics::Registry& registry, std::function<bool()> healthy)
    : registry_(registry), healthy_(std::move(healthy)) {}

MetricsPage::~MetricsPage() = default;

Result<std::unique_ptr<MetricsPage>> MetricsPage::start(const std::string&, const metrics::Registry&,
                                                        std::function<bool()>) {
  return Error::told(Errc::kNotSupported,
                     "--metrics: this spated was built without libmicrohttpd; `spate stats --prometheus` "
                     "prints the same");
}

}  // namespace spate::daemon
