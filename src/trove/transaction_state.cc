// SPDX-License-Identifier: Apache-2.0
#include "trove/transaction_state.h"

#include "base/check.h"

namespace spate::trove {

bool TransactionState::get_own(ByteView key, KeyvalCompletion& done) const {
  const WriteSet::Write* own = writes.find(key);
  if (own == nullptr) return false;
  if (own->erased) {
    done.value.reset();
  } else {
    done.value = to_bytes(own->value);
  }
  return true;
}

std::size_t TransactionState::wanted(const KeyRange& range) const {
  SPATE_CHECK(range.limit >= 1);
  const std::size_t hidden = writes.empty() ? 0 : writes.erased_in(range.begin, range.end);
  const std::size_t extra = hidden + 1;  // one entry more than the limit, which decides `more`
  return range.limit > SIZE_MAX - extra ? SIZE_MAX : range.limit + extra;
}

void TransactionState::finish_range(const KeyRange& range, StoreEntries found, const WriteSet& own,
                                    KeyvalCompletion& done) {
  std::vector<KeyValue>& entries = found.entries;
  if (!own.empty()) own.overlay(range.begin, range.end, found.more, entries);
  done.more = entries.size() > range.limit;
  SPATE_CHECK(done.more || !found.more);
  if (done.more) entries.resize(range.limit);
  if (range.mode == ReadMode::kChecked) {
    // A change beyond the last entry is no conflict. A caller that depends on that part reads on.
    if (done.more) {
      reads.add_range_to(range.begin, entries.back().key);
    } else {
      reads.add_range(range.begin, range.end);
    }
  }
  done.entries = std::move(entries);
}

bool TransactionState::finish() {
  SPATE_CHECK(!finished_);
  finished_ = true;
  const bool good = resolver_.unchanged(point, reads);
  resolver_.end(point);
  return good;
}

}  // namespace spate::trove
