// SPDX-License-Identifier: Apache-2.0
// Random: all code gets its random numbers through this interface, so that a simulation can control them.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace spate {

/// Not thread-safe unless a subclass says so.
class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;

  /// Uniform in [0, bound); `bound` >= 1.
  std::uint64_t below(std::uint64_t bound);
  /// True in `numerator` of `denominator` cases.
  bool chance(std::uint64_t numerator, std::uint64_t denominator) { return below(denominator) < numerator; }
  void fill(MutableByteView out);
};

/// xoshiro256**: the same numbers from the same seed with every compiler. Not for secrets.
/// Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021 (public domain algorithm).
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed);
  std::uint64_t next() override;

 private:
  std::array<std::uint64_t, 4> state_;
};

/// getrandom(2): for ids, nonces and keys. Thread-safe.
class SystemRandom final : public Random {
 public:
  std::uint64_t next() override;
};

}  // namespace spate
