// SPDX-License-Identifier: Apache-2.0
// Summary: the result of several runs of one measurement.
#pragma once

#include <cstddef>
#include <vector>

namespace spate::measure {

/// The median of some values and their spread. All zero without values.
struct Summary {
  double median = 0;
  double low = 0;
  double high = 0;
  std::size_t runs = 0;

  static Summary of(std::vector<double> values);
  /// (high - low) / median, as a share; 0 when the median is.
  double spread() const { return median == 0 ? 0 : (high - low) / median; }
};

/// The value that `share` (0..1) of the values do not exceed (nearest rank); 0 without values.
double percentile(std::vector<double> values, double share);

}  // namespace spate::measure
