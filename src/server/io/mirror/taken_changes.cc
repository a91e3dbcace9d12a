// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/taken_changes.h"

#include <algorithm>

namespace spate::io {

std::shared_ptr<TakenChanges::Change> TakenChanges::find(std::uint64_t number) const {
  const auto found = changes_.find(number);
  return found == changes_.end() ? nullptr : found->second;
}

std::shared_ptr<TakenChanges::Change> TakenChanges::begin(std::uint64_t number, ChangedRegion first,
                                                          std::uint64_t last_region) {
  auto change = std::make_shared<Change>(executor_, first, last_region);
  changes_[number] = change;
  ++running_;
  quiet_.reset();
  return change;
}

void TakenChanges::end(Change& change, Errc status) {
  change.status = status;
  change.ended.set();
  if (--running_ == 0) quiet_.set();
}

void TakenChanges::done_below(std::uint64_t number) {
  lowest_ = std::max(lowest_, number);
  for (auto at = changes_.begin(); at != changes_.end() && at->first < number;) {
    at = at->second->ended.is_set() ? changes_.erase(at) : std::next(at);
  }
}

std::vector<ChangedRegion> TakenChanges::doubtful() const {
  std::vector<ChangedRegion> found;
  for (const auto& [number, change] : changes_) {
    ChangedRegion region = change->first;
    const std::uint64_t last = region.to_the_end ? region.region : change->last_region;
    for (; region.region <= last; ++region.region) found.push_back(region);
  }
  return found;
}

}  // namespace spate::io
