// SPDX-License-Identifier: Apache-2.0
// The space of a device that is kept for records.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spate {

/// How many bytes of a device of `total_bytes` no write may use. They are kept for the records of all servers on it:
/// without them, nothing could be removed from a full device.
constexpr std::uint64_t reserved_for_records(std::uint64_t total_bytes) {
  constexpr std::uint64_t kMost = 64U << 20U;
  return std::min(kMost, total_bytes / 8);
}

}  // namespace spate
