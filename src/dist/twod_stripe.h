// SPDX-License-Identifier: Apache-2.0
// TwodStripe: stripes over one group of slots, then over the next.
#pragma once

#include "dist/type.h"

namespace spate {

/// The slots form groups of equal size. The file goes over the first group `factor` rounds long, then over the second,
/// and so on, and after the last group over the first again. A client that streams talks to the servers of one group at
/// a time; clients at different places of a file use different groups. Source: OrangeFS's distribution of that name.
class TwodStripe final : public Distribution {
 public:
  struct Groups {
    std::uint64_t count = 1;   // divides the number of slots
    std::uint64_t factor = 1;  // rounds in one group before the next one; 1..65536
  };

  /// `slots` 1..kMaxSlots; `strip_bytes` 1..kMaxStripBytes.
  TwodStripe(std::size_t slots, std::uint64_t strip_bytes, Groups groups);

  std::size_t slot_count() const override { return static_cast<std::size_t>(groups_.count * group_slots_); }
  Physical to_physical(std::uint64_t logical) const override;
  std::uint64_t to_logical(std::uint32_t slot, std::uint64_t physical) const override;
  std::uint64_t contiguous_bytes(std::uint64_t logical) const override;
  std::uint64_t physical_size(std::uint32_t slot, std::uint64_t logical_size) const override;
  std::uint64_t shift_bytes() const override { return groups_.count * turn_bytes_; }

 private:
  const Groups groups_;
  const std::uint64_t group_slots_;
  const std::uint64_t strip_bytes_;
  const std::uint64_t share_bytes_;  // of one slot while it is its group's turn
  const std::uint64_t turn_bytes_;   // of one group; at most 2^60
};

/// "twod_stripe:GROUPS,FACTOR". New files get as many slots as the groups can share equally.
const DistributionType& twod_stripe_type();

}  // namespace spate
