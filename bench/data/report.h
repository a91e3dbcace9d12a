// SPDX-License-Identifier: Apache-2.0
// The results of the data bench: a table for people, JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/summary.h"

namespace spate::bench {

/// The result of one run, either of the raw probe or of Spate.
struct Sample {
  double value = 0;       // in the figure's unit
  double client_cpu = 0;  // seconds per GiB, or microseconds per request
  double server_cpu = 0;  // likewise
  double cpu() const { return client_cpu + server_cpu; }
};

/// The values that a figure must reach.
struct Goal {
  std::optional<double> ratio_at_least;  // Spate's value divided by the probe's
  std::optional<double> cpu_ratio_at_most;
  std::optional<double> above_probe_at_most;  // Spate's value minus the probe's, in the figure's unit
  std::optional<double> at_least;
  std::optional<double> at_most;
  bool any() const { return ratio_at_least || cpu_ratio_at_most || above_probe_at_most || at_least || at_most; }
};

struct Figure {
  std::string name;
  std::string unit;
  std::string cpu_unit;
  Goal goal;
  std::vector<Sample> raw;  // as many as `spate`; each pair was run side by side
  std::vector<Sample> spate;

  measure::Summary raw_value() const { return summary(raw, &Sample::value); }
  measure::Summary value() const { return summary(spate, &Sample::value); }
  /// Spate's value divided by the probe's, for each pair of runs.
  measure::Summary ratio() const;
  measure::Summary cpu_ratio() const;
  bool met() const;

  static measure::Summary summary(const std::vector<Sample>& samples, double Sample::* member);
};

std::string table(const std::vector<Figure>& figures);
std::string json(const std::vector<Figure>& figures, const std::vector<std::pair<std::string, std::string>>& about);

}  // namespace spate::bench
