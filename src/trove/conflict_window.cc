// SPDX-License-Identifier: Apache-2.0
#include "trove/conflict_window.h"

#include <algorithm>

#include "base/check.h"

namespace spate::trove {

void ConflictWindow::record(Version version, ByteView key) {
  SPATE_CHECK(log_.empty() || log_.back().version <= version);
  if (version <= start_) return;  // the rest of a commit that is larger than the whole window
  auto at = last_.lower_bound(key);
  if (at == last_.end() || !same_key(at->first, key)) {
    at = last_.emplace_hint(at, to_bytes(key), version);
    bytes_ += key.size() + kEntryOverhead;
  }
  at->second = version;
  log_.push_back({version, at});
  bytes_ += sizeof(Logged);
  while (bytes_ > max_bytes_ && !log_.empty()) forget_up_to(log_.front().version);
}

void ConflictWindow::forget_up_to(Version version) {
  while (!log_.empty() && log_.front().version <= version) drop_oldest();
  start_ = std::max(start_, version);
}

void ConflictWindow::drop_oldest() {
  const Logged& oldest = log_.front();
  if (oldest.entry->second == oldest.version) {
    bytes_ -= oldest.entry->first.size() + kEntryOverhead;
    last_.erase(oldest.entry);
  }
  bytes_ -= sizeof(Logged);
  log_.pop_front();
}

bool ConflictWindow::key_changed(ByteView key, Version since) const {
  if (since < start_) return true;
  const auto at = last_.find(key);
  return at != last_.end() && at->second > since;
}

bool ConflictWindow::range_changed(ByteView begin, ByteView end, Version since) const {
  if (since < start_) return true;
  for (auto at = last_.lower_bound(begin); at != last_.end() && compare_keys(at->first, end) < 0; ++at) {
    if (at->second > since) return true;
  }
  return false;
}

}  // namespace spate::trove
