// SPDX-License-Identifier: Apache-2.0
#include "datatype/list_parts.h"

#include "base/check.h"

namespace spate::datatype {
namespace {

/// Deals pieces to groups.
class Dealer {
 public:
  Dealer(const Distribution& distribution, std::span<const std::size_t> group_of, std::size_t groups)
      : distribution_(distribution), group_of_(group_of), parts_(groups), last_(groups, 0) {}

  void deal(const Extent& piece) {
    ++number_;
    const std::uint64_t end = piece.offset + piece.size;
    std::uint64_t at = piece.offset;
    // After as many strips as there are slots it is cheaper to ask for each slot.
    for (std::size_t strips = 0; strips < group_of_.size(); ++strips) {
      if (at < strip_begin_ || at >= strip_end_) find_strip(at);
      give(piece, strip_group_);
      if (strip_end_ >= end) return;
      at = strip_end_;
    }
    for (std::uint32_t slot = 0; slot < group_of_.size(); ++slot) {
      if (distribution_.next_in_slot(slot, at) < end) give(piece, group_of_[slot]);
    }
  }
  const std::vector<std::vector<Extent>>& parts() const { return parts_; }

 private:
  void find_strip(std::uint64_t at) {
    strip_begin_ = at;
    strip_end_ = at + distribution_.contiguous_bytes(at);
    strip_group_ = group_of_[distribution_.to_physical(at).slot];
  }
  void give(const Extent& piece, std::size_t group) {
    if (group >= parts_.size() || last_[group] == number_) return;
    last_[group] = number_;
    parts_[group].push_back(piece);
  }

  const Distribution& distribution_;
  std::span<const std::size_t> group_of_;
  std::vector<std::vector<Extent>> parts_;
  std::size_t number_ = 0;         // number of the current piece, from 1 on
  std::vector<std::size_t> last_;  // for each group: the piece that it got last
  // The strip that was looked up last, because many pieces lie in one strip.
  std::uint64_t strip_begin_ = 0;
  std::uint64_t strip_end_ = 0;
  std::size_t strip_group_ = 0;
};

}  // namespace

std::vector<Description> split_list(const Description& list, const Distribution& distribution,
                                    std::span<const std::size_t> group_of, std::size_t groups) {
  SPATE_CHECK(list.kind() == DescriptionKind::kList && group_of.size() == distribution.slot_count());
  Dealer dealer(distribution, group_of, groups);
  for (const Extent& piece : list.pieces()) dealer.deal(piece);
  std::vector<Description> parts;
  for (const std::vector<Extent>& pieces : dealer.parts()) {
    auto part = Description::list(pieces);
    SPATE_CHECK(part.has_value());  // pieces of a list are one
    parts.push_back(*std::move(part));
  }
  return parts;
}

}  // namespace spate::datatype
