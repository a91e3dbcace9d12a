// SPDX-License-Identifier: Apache-2.0
#include "metrics/histogram.h"

#include <algorithm>
#include <cmath>

namespace spate::metrics {

std::uint64_t HistogramData::count() const {
  std::uint64_t total = 0;
  for (const Bucket& b : buckets) total += b.count;
  return total;
}

double HistogramData::mean() const {
  const std::uint64_t n = count();
  return n == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(n);
}

std::uint64_t HistogramData::percentile(double fraction) const {
  const std::uint64_t n = count();
  if (n == 0) return 0;
  const double wanted = std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(n));
  const std::uint64_t rank = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, n);
  // The maximum is stored exactly.
  if (rank == n) return max;
  std::uint64_t seen = 0;
  for (const Bucket& b : buckets) {
    seen += b.count;
    if (seen >= rank) {
      const std::uint64_t low = bucket_low(b.index);
      return std::min(max, low + (bucket_high(b.index) - low) / 2);
    }
  }
  return max;
}

void HistogramData::add(const HistogramData& other) {
  std::vector<Bucket> merged;
  merged.reserve(buckets.size() + other.buckets.size());
  auto a = buckets.begin();
  auto b = other.buckets.begin();
  while (a != buckets.end() || b != other.buckets.end()) {
    if (b == other.buckets.end() || (a != buckets.end() && a->index < b->index)) {
      merged.push_back(*a++);
    } else if (a == buckets.end() || b->index < a->index) {
      merged.push_back(*b++);
    } else {
      merged.push_back({a->index, a->count + b->count});
      ++a;
      ++b;
    }
  }
  buckets = std::move(merged);
  sum += other.sum;
  max = std::max(max, other.max);
}

namespace {

std::uint64_t count_in(const HistogramData& data, std::uint16_t index) {
  const auto at = std::lower_bound(data.buckets.begin(), data.buckets.end(), index,
                                   [](const HistogramData::Bucket& b, std::uint16_t i) { return b.index < i; });
  return at != data.buckets.end() && at->index == index ? at->count : 0;
}

}  // namespace

bool HistogramData::includes(const HistogramData& earlier) const {
  return std::all_of(earlier.buckets.begin(), earlier.buckets.end(),
                     [this](const Bucket& b) { return count_in(*this, b.index) >= b.count; });
}

void HistogramData::subtract(const HistogramData& earlier) {
  for (Bucket& b : buckets) b.count -= count_in(earlier, b.index);
  std::erase_if(buckets, [](const Bucket& b) { return b.count == 0; });
  sum -= earlier.sum;
  if (buckets.empty()) max = 0;
}

}  // namespace spate::metrics
