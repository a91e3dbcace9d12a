// SPDX-License-Identifier: Apache-2.0
// The buckets of a histogram and the values computed from their counts; pure.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spate::metrics {

/// Log-linear buckets over all of 0 .. 2^64-1: values below 16 are exact, every octave above has 16 equal buckets, so a
/// bucket is at most 1/16 of its values wide and its middle is within 3.2% of each of them.
/// Source: HDRHISTOGRAM (the bucket scheme).
inline constexpr unsigned kSubBucketBits = 4;
inline constexpr std::size_t kBuckets = (64 - kSubBucketBits + 1) << kSubBucketBits;

constexpr std::size_t bucket_of(std::uint64_t value) {
  constexpr std::uint64_t kExact = 1ULL << kSubBucketBits;
  if (value < kExact) return static_cast<std::size_t>(value);
  const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kSubBucketBits - 1;
  return (static_cast<std::size_t>(shift) << kSubBucketBits) + static_cast<std::size_t>(value >> shift);
}

/// Smallest value of a bucket; `bucket` < kBuckets.
constexpr std::uint64_t bucket_low(std::size_t bucket) {
  constexpr std::size_t kExact = 1U << kSubBucketBits;
  if (bucket < kExact) return bucket;
  const std::size_t shift = (bucket >> kSubBucketBits) - 1;
  return ((bucket & (kExact - 1)) | kExact) << shift;
}

/// Largest value of a bucket.
constexpr std::uint64_t bucket_high(std::size_t bucket) {
  return bucket + 1 == kBuckets ? UINT64_MAX : bucket_low(bucket + 1) - 1;
}

/// The contents of a histogram at one time. A value. Its unit is that of the recorded values.
struct HistogramData {
  struct Bucket {
    std::uint16_t index = 0;  // < kBuckets
    std::uint64_t count = 0;  // > 0
    friend bool operator==(const Bucket&, const Bucket&) = default;
  };
  std::vector<Bucket> buckets;  // ascending by index; empty ones left out
  std::uint64_t sum = 0;        // of all values, modulo 2^64
  std::uint64_t max = 0;        // exact

  std::uint64_t count() const;
  double mean() const;
  /// The smallest value that at least `fraction` (0..1) of all values do not exceed, within 3.2%. Never above max. 0
  /// without values.
  std::uint64_t percentile(double fraction) const;
  void add(const HistogramData& other);
  /// Whether `earlier` has no bucket with a larger count than this has. Otherwise do not call subtract().
  bool includes(const HistogramData& earlier) const;
  void subtract(const HistogramData& earlier);
  friend bool operator==(const HistogramData&, const HistogramData&) = default;
};

}  // namespace spate::metrics
