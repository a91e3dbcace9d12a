// SPDX-License-Identifier: Apache-2.0
// SimpleStripe: gives the strips of a file to the slots in turn, the first strip to slot 0.
#pragma once

#include "dist/type.h"

namespace spate {

/// PVFS's distribution. Its parameters base, pcount and ssize are here the order of the slots, their number and
/// strip_bytes. With L the logical offset, strip = L / ssize:
///   slot     = strip mod pcount
///   physical = (strip / pcount) * ssize + L mod ssize
/// Source: PVFS, sec. 3.2, Table 1 and Figure 1.
class SimpleStripe final : public Distribution {
 public:
  /// `slots` 1..kMaxSlots; `strip_bytes` 1..kMaxStripBytes, any value (Layout's lower bound is policy, not arithmetic).
  SimpleStripe(std::size_t slots, std::uint64_t strip_bytes);

  std::size_t slot_count() const override { return slots_; }
  Physical to_physical(std::uint64_t logical) const override;
  std::uint64_t to_logical(std::uint32_t slot, std::uint64_t physical) const override;
  std::uint64_t contiguous_bytes(std::uint64_t logical) const override;
  std::uint64_t physical_size(std::uint32_t slot, std::uint64_t logical_size) const override;
  std::uint64_t shift_bytes() const override { return slots_ == 1 ? 1 : strip_bytes_; }

 private:
  std::uint64_t slots_;
  std::uint64_t strip_bytes_;
  std::uint64_t stripe_bytes_;  // one round over all slots; <= 2^44
};

/// "simple_stripe", without parameters: the default.
const DistributionType& simple_stripe_type();

}  // namespace spate
