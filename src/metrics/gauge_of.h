// SPDX-License-Identifier: Apache-2.0
// GaugeOf: a gauge whose value is kept elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "metrics/metrics.h"

namespace spate::metrics {

/// A gauge that is kept elsewhere. Each read calls `value`, from any thread, under the registry's lock.
class GaugeOf final : public Metric {
 public:
  /// `value`: never waits for a lock that is held while the registry is read; may be called until this is destroyed.
  GaugeOf(Registry& registry, std::string name, Labels labels, std::function<std::int64_t()> value);
  ~GaugeOf() override { detach(); }

 private:
  void read(Sample& out) const override;
  const std::function<std::int64_t()> value_;
};

}  // namespace spate::metrics
