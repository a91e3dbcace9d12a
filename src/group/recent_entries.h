// SPDX-License-Identifier: Apache-2.0
// RecentEntries: the newest entries of a primary's log, in memory.
#pragma once

#include <deque>

#include "group/messages.h"

namespace spate::group {

/// Serves members that are nearly up to date; the others receive entries that are read from the store. It keeps at
/// least the newest entry, and otherwise no more than the given number and bytes.
class RecentEntries {
 public:
  struct Limits {
    std::size_t entries = 8192;
    std::size_t bytes = std::size_t{64} << 20U;
  };
  struct Recent {
    trove::LogPosition at;
    EntryRef entry;
  };

  /// `before`: the log's last entry until now.
  explicit RecentEntries(trove::LogPosition before) : RecentEntries(before, Limits()) {}
  RecentEntries(trove::LogPosition before, Limits limits) : limits_(limits), before_(before) {}

  void add(trove::LogPosition at, EntryRef entry) {
    bytes_ += entry->size();
    entries_.push_back({at, std::move(entry)});
    while (entries_.size() > 1 && (entries_.size() > limits_.entries || bytes_ > limits_.bytes)) {
      bytes_ -= entries_.front().entry->size();
      before_ = entries_.front().at;
      entries_.pop_front();
    }
  }
  /// The position of the entry before the first one that is kept.
  trove::LogPosition before() const { return before_; }
  /// The entry of this index; null: there is none yet. The index is above before().
  const Recent* find(std::uint64_t index) const {
    const auto place = static_cast<std::size_t>(index - before_.index - 1);
    return place < entries_.size() ? &entries_[place] : nullptr;
  }

 private:
  const Limits limits_;
  trove::LogPosition before_;
  std::deque<Recent> entries_;
  std::size_t bytes_ = 0;
};

}  // namespace spate::group
