// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <sys/random.h>

#include <bit>

#include "base/check.h"

namespace spate {

std::uint64_t Random::below(std::uint64_t bound) {
  SPATE_CHECK(bound >= 1);
  // Rejection keeps it uniform: values below 2^64 mod bound are drawn again.
  const std::uint64_t reject_below = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t v = next();
    if (v >= reject_below) return v % bound;
  }
}

void Random::fill(MutableByteView out) {
  std::size_t at = 0;
  while (at < out.size()) {
    std::uint64_t v = next();
    for (int i = 0; i < 8 && at < out.size(); ++i, v >>= 8U) out[at++] = static_cast<std::byte>(v);
  }
}

SeededRandom::SeededRandom(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {  // splitmix64 spreads the seed over the state
    seed += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    word = z ^ (z >> 31U);
  }
}

std::uint64_t SeededRandom::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17U;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t SystemRandom::next() {
  std::uint64_t v = 0;
  SPATE_CHECK(getrandom(&v, sizeof v, 0) == static_cast<ssize_t>(sizeof v));
  return v;
}

}  // namespace spate
