// SPDX-License-Identifier: Apache-2.0
#include "model/lock_ranges.h"

#include <algorithm>

namespace spate {

/// The first piece that ends at or after `byte`.
std::vector<HeldLock>::const_iterator LockRanges::first_from(std::uint64_t byte) const {
  return std::lower_bound(pieces_.begin(), pieces_.end(), byte,
                          [](const HeldLock& piece, std::uint64_t value) { return piece.range.last < value; });
}

void LockRanges::set(LockRange range, LockMode mode) {
  // Include pieces that touch the range, so that neighbours of one mode become one piece.
  const auto begin = first_from(range.first == 0 ? 0 : range.first - 1);
  auto end = begin;
  HeldLock middle{range, mode};
  std::vector<HeldLock> fresh;
  std::optional<HeldLock> right;
  for (; end != pieces_.end() && (end->range.first == 0 || end->range.first - 1 <= range.last); ++end) {
    if (end->mode == mode) {
      middle.range.first = std::min(middle.range.first, end->range.first);
      middle.range.last = std::max(middle.range.last, end->range.last);
      continue;
    }
    if (end->range.first < range.first) {
      fresh.push_back({{end->range.first, std::min(end->range.last, range.first - 1)}, end->mode});
    }
    if (end->range.last > range.last)
      right = {{std::max(end->range.first, range.last + 1), end->range.last}, end->mode};
  }
  if (mode != LockMode::kNone) fresh.push_back(middle);
  if (right) fresh.push_back(*right);
  const auto place = pieces_.erase(begin, end);
  pieces_.insert(place, fresh.begin(), fresh.end());
}

std::size_t LockRanges::pieces_after(LockRange range, LockMode mode) const {
  LockRanges changed = *this;
  changed.set(range, mode);
  return changed.pieces_.size();
}

std::optional<HeldLock> LockRanges::in_the_way_of(LockRange range, LockMode mode) const {
  for (auto piece = first_from(range.first); piece != pieces_.end() && piece->range.first <= range.last; ++piece) {
    if (conflict(piece->mode, mode)) return *piece;
  }
  return std::nullopt;
}

bool LockRanges::covers(LockRange range, LockMode mode) const {
  const auto piece = first_from(range.first);  // pieces of one mode are joined, so one piece must cover the range
  return piece != pieces_.end() && piece->mode == mode && piece->range.first <= range.first &&
         piece->range.last >= range.last;
}

}  // namespace spate
