// SPDX-License-Identifier: Apache-2.0
// Random calls of one process on two file systems, of which one gives the expected results.
#pragma once

#include <cstdint>

#include "tests/posix/pair.h"

namespace spate::posix_test {

/// Makes `calls` random calls on both file systems of `pair`, and compares their trees every 100 calls and at the end.
/// Ends at the first difference, which is a failure of the test. `observer`: another look at the tested file system,
/// whose tree must be the same then; null: none.
void make_random_calls(std::uint64_t seed, int calls, Pair& pair, Frontend* observer = nullptr);

}  // namespace spate::posix_test
