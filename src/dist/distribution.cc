// SPDX-License-Identifier: Apache-2.0
#include "dist/distribution.h"

#include <algorithm>

#include "base/check.h"

namespace spate {

std::uint64_t Distribution::logical_size(std::span<const std::uint64_t> datafile_sizes) const {
  SPATE_CHECK(datafile_sizes.size() == slot_count());
  std::uint64_t size = 0;
  for (std::uint32_t slot = 0; slot < datafile_sizes.size(); ++slot) {
    if (datafile_sizes[slot] == 0) continue;
    size = std::max(size, std::min(to_logical(slot, datafile_sizes[slot] - 1), kMaxFileBytes - 1) + 1);
  }
  return size;
}

}  // namespace spate
