// SPDX-License-Identifier: Apache-2.0
// VarStrip: strips of any sizes, given to slots in any order, which repeats.
#pragma once

#include <vector>

#include "dist/type.h"

namespace spate {

/// A list of strips, repeated for ever. Source: OrangeFS's distribution of that name. O(log strips) a call.
class VarStrip final : public Distribution {
 public:
  struct Strip {
    std::uint32_t slot = 0;
    std::uint64_t bytes = 0;  // 1..kMaxStripBytes
    friend bool operator==(const Strip&, const Strip&) = default;
  };

  /// 1 to 65536 strips. `slots` is 1..kMaxSlots; each slot below it has a strip.
  VarStrip(std::size_t slots, const std::vector<Strip>& strips);

  std::size_t slot_count() const override { return share_.size(); }
  Physical to_physical(std::uint64_t logical) const override;
  std::uint64_t to_logical(std::uint32_t slot, std::uint64_t physical) const override;
  std::uint64_t contiguous_bytes(std::uint64_t logical) const override;
  std::uint64_t physical_size(std::uint32_t slot, std::uint64_t logical_size) const override;
  std::uint64_t shift_bytes() const override { return share_.size() == 1 ? 1 : round_bytes_; }

 private:
  /// A strip of the first round.
  struct PlacedStrip {
    std::uint64_t logical;   // its first byte in the file
    std::uint64_t physical;  // its first byte in the slot's datafile
    std::uint64_t bytes;
    std::uint32_t slot;
  };
  /// The strips of one round that one slot holds.
  struct SlotStrips {
    std::vector<std::uint32_t> strips;  // indices of its strips, ascending
    std::uint64_t bytes = 0;
  };
  const PlacedStrip& strip_at(std::uint64_t in_round) const;

  std::vector<PlacedStrip> strips_;
  std::vector<SlotStrips> share_;  // by slot
  std::uint64_t round_bytes_ = 0;
};

/// "varstrip:[SLOT:]SIZE,...". A strip without a slot's number goes to the slot after that of the strip before it, and
/// the first strip to slot 0. New files get as many slots as the list names.
const DistributionType& varstrip_type();

}  // namespace spate
