// SPDX-License-Identifier: Apache-2.0
#include "dist/distribution.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "dist/simple_stripe.h"

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

Result<std::unique_ptr<const Distribution>> make_distribution(DistributionKind kind, std::uint64_t strip_bytes,
                                                              std::size_t slot_count) {
  if (slot_count < 1 || slot_count > kMaxSlots) return Error(Errc::kInvalidArgument, "layout: number of slots");
  if (strip_bytes < kMinStripBytes || strip_bytes > kMaxStripBytes) {
    return Error(Errc::kInvalidArgument, "layout: strip size");
  }
  switch (kind) {
    case DistributionKind::kSimpleStripe:
      return std::unique_ptr<const Distribution>(std::make_unique<SimpleStripe>(slot_count, strip_bytes));
  }
  return Error(Errc::kNotSupported, "layout: distribution " + std::to_string(static_cast<int>(kind)));
}

Result<std::unique_ptr<const Distribution>> make_distribution(const Layout& layout) {
  return make_distribution(layout.distribution, layout.strip_bytes, layout.slots.size());
}

}  // namespace spate
