// SPDX-License-Identifier: Apache-2.0
// Where the workload's data under a lock lies.
#pragma once

#include <cstdint>

namespace spate::cluster {

/// Of the file that takes copies: behind everybody's place for those.
inline constexpr std::uint64_t kGuardedAt = 128ULL << 20U;
inline constexpr std::uint64_t kGuardedBytes = 40'000;

}  // namespace spate::cluster
