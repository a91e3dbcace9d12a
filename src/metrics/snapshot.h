// SPDX-License-Identifier: Apache-2.0
// Snapshot: the values of many metrics at one time, as a value that can be merged, sent and printed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "metrics/histogram.h"

namespace spate::metrics {

enum class MetricKind : std::uint8_t { kCounter = 0, kGauge = 1, kHistogram = 2 };

/// Name and value pairs, in the order of their declaration. There are few, and their values come from a small set:
/// never a handle or a path.
using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  std::string name;  // spate_<folder>_<what>_<unit>
  Labels labels;
  MetricKind kind = MetricKind::kCounter;
  std::int64_t value = 0;   // counters and gauges
  HistogramData histogram;  // histograms
  friend bool operator==(const Sample&, const Sample&) = default;
};

/// Samples ordered by (name, labels), each pair once.
class Snapshot {
 public:
  const std::vector<Sample>& samples() const { return samples_; }
  /// Null when there is none.
  const Sample* find(std::string_view name, const Labels& labels = {}) const;

  /// Adds a sample to the one of the same name and labels, or inserts it. Counters, gauges and histograms are summed
  /// (max: the larger). Fails with kConflict if the kinds differ, and changes nothing.
  Result<void> add(Sample sample);
  /// Adds every sample of `other`, up to the first conflict.
  Result<void> merge(const Snapshot& other);

  /// The change since `before`, an earlier snapshot of the same registries. Counters and histograms are subtracted; a
  /// histogram keeps its max, because its time is not known. Gauges stay as they are. A value that is lower than before
  /// belongs to a process that has started since, and counts whole.
  Snapshot since(const Snapshot& before) const;

  /// Prometheus text format 0.0.4. A histogram gets one cumulative bucket per octave (exact) and a `_max` gauge.
  std::string prometheus() const;

  /// docs/wire.md, "Metrics snapshot".
  void encode(Bytes& out) const;
  /// Decodes foreign bytes. Fails with kCorrupt unless they are exactly one valid snapshot, and with kVersionMismatch
  /// for a newer version.
  static Result<Snapshot> decode(ByteView bytes);

  friend bool operator==(const Snapshot&, const Snapshot&) = default;

 private:
  std::vector<Sample> samples_;
};

/// "spate_" and then lower-case letters, digits and underscores, at most 100 characters.
bool valid_metric_name(std::string_view name);

}  // namespace spate::metrics
