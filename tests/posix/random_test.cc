// SPDX-License-Identifier: Apache-2.0
// Random calls of one process. The kernel's file system gives the expected result of each. A failing seed is printed.
#include <cstdlib>

#include "tests/posix/random_calls.h"

namespace spate::posix_test {
namespace {

TEST(Random, CallsOfOneProcessGiveWhatTheKernelGives) {
  const char* const given = std::getenv("SPATE_SEED");
  const std::uint64_t first = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  const std::uint64_t seeds = given == nullptr ? 3 : 1;
  for (std::uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
    Pair pair(seed);
    make_random_calls(seed, 600, pair);
  }
}

}  // namespace
}  // namespace spate::posix_test
