// SPDX-License-Identifier: Apache-2.0
// The range that the workload protects by a lock.
#pragma once

#include <cstdint>

namespace spate::cluster {

/// In the scratch file, beyond the places of all clients.
inline constexpr std::uint64_t kGuardedAt = 128ULL << 20U;
inline constexpr std::uint64_t kGuardedBytes = 40'000;

}  // namespace spate::cluster
