// SPDX-License-Identifier: Apache-2.0
#include "metrics/gauge_of.h"

namespace spate::metrics {

GaugeOf::GaugeOf(Registry& registry, std::string name, Labels labels, std::function<std::int64_t()> value)
    : Metric(registry, MetricKind::kGauge, std::move(name), std::move(labels)), value_(std::move(value)) {
  attach();
}
void GaugeOf::read(Sample& out) const { out.value = value_(); }

}  // namespace spate::metrics
