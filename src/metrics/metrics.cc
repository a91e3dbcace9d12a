// SPDX-License-Identifier: Apache-2.0
#include "metrics/metrics.h"

#include <utility>

#include "base/check.h"

namespace spate::metrics {

Registry::~Registry() { SPATE_CHECK(metrics_.empty()); }

void Registry::attach(Metric& metric) {
  const std::lock_guard lock(mutex_);
  metric.position_ = metrics_.size();
  metrics_.push_back(&metric);
}

void Registry::detach(Metric& metric) {
  const std::lock_guard lock(mutex_);
  if (metric.kind_ != MetricKind::kGauge) SPATE_CHECK(retired_.add(metric.sample()).has_value());
  metrics_[metric.position_] = metrics_.back();
  metrics_[metric.position_]->position_ = metric.position_;
  metrics_.pop_back();
}

Snapshot Registry::snapshot() const {
  const std::lock_guard lock(mutex_);
  Snapshot out = retired_;
  // A name with two kinds is a bug of ours.
  for (const Metric* metric : metrics_) SPATE_CHECK(out.add(metric->sample()).has_value());
  return out;
}

Metric::Metric(Registry& registry, MetricKind kind, std::string name, Labels labels)
    : registry_(registry), kind_(kind), name_(std::move(name)), labels_(std::move(labels)) {
  SPATE_CHECK(valid_metric_name(name_));
}

Sample Metric::sample() const {
  Sample out;
  out.name = name_;
  out.labels = labels_;
  out.kind = kind_;
  read(out);
  return out;
}

Counter::Counter(Registry& registry, std::string name, Labels labels)
    : Metric(registry, MetricKind::kCounter, std::move(name), std::move(labels)) {
  attach();
}
void Counter::read(Sample& out) const { out.value = static_cast<std::int64_t>(value()); }

CounterOf::CounterOf(Registry& registry, std::string name, Labels labels, std::function<std::uint64_t()> value)
    : Metric(registry, MetricKind::kCounter, std::move(name), std::move(labels)), value_(std::move(value)) {
  attach();
}
void CounterOf::read(Sample& out) const { out.value = static_cast<std::int64_t>(value_()); }

Gauge::Gauge(Registry& registry, std::string name, Labels labels)
    : Metric(registry, MetricKind::kGauge, std::move(name), std::move(labels)) {
  attach();
}
void Gauge::read(Sample& out) const { out.value = value(); }

GaugeOf::GaugeOf(Registry& registry, std::string name, Labels labels, std::function<std::int64_t()> value)
    : Metric(registry, MetricKind::kGauge, std::move(name), std::move(labels)), value_(std::move(value)) {
  attach();
}
void GaugeOf::read(Sample& out) const { out.value = value_(); }

Histogram::Histogram(Registry& registry, std::string name, Labels labels)
    : Metric(registry, MetricKind::kHistogram, std::move(name), std::move(labels)) {
  attach();
}

HistogramData Histogram::data() const {
  HistogramData data;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    const std::uint64_t n = counts_[i].load(std::memory_order_relaxed);
    if (n != 0) data.buckets.push_back({static_cast<std::uint16_t>(i), n});
  }
  data.sum = sum_.load(std::memory_order_relaxed);
  data.max = max_.load(std::memory_order_relaxed);
  return data;
}
void Histogram::read(Sample& out) const { out.histogram = data(); }

}  // namespace spate::metrics
