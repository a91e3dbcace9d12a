// SPDX-License-Identifier: Apache-2.0
// TransactionState: the reads, the writes and the place in the commit order of a transaction. All modules use it.
#pragma once

#include <array>
#include <memory_resource>
#include <utility>
#include <vector>

#include "trove/read_set.h"
#include "trove/resolver.h"
#include "trove/write_set.h"

namespace spate::trove {

/// The store's entries in a range, in key order. `more`: the range was not read to its end.
struct StoreEntries {
  std::vector<KeyValue> entries;
  bool more = false;
};

/// Pinned. The constructor begins the transaction, finish() or the destructor ends it. Not thread-safe: the resolver's
/// thread uses it.
class TransactionState {
 public:
  explicit TransactionState(Resolver& resolver) : resolver_(resolver) { resolver_.begin(point); }
  TransactionState(const TransactionState&) = delete;
  TransactionState& operator=(const TransactionState&) = delete;
  ~TransactionState() { resolver_.end(point); }

  /// Answers a get without the store if the transaction has written the key itself. Adds nothing to the reads, since no
  /// other transaction can affect the answer. False: `done` is untouched; ask the store.
  bool get_own(ByteView key, KeyvalCompletion& done) const;
  void note_key(ByteView key, ReadMode mode) {
    if (mode == ReadMode::kChecked) reads.add_key(key);
  }
  /// How many entries the store must give so that `range` can be answered and its `more` decided.
  std::size_t wanted(const KeyRange& range) const;
  /// Turns the store's entries in a range into the answer: lays `own` over them (the writes as they were when the read
  /// was posted), cuts them to the limit, and notes what was read.
  void finish_range(const KeyRange& range, StoreEntries found, const WriteSet& own, KeyvalCompletion& done);

  /// Ends the transaction. False: kConflict.
  bool finish();
  bool finished() const { return finished_; }

 private:
  // Enough for a create (about five small records): such a transaction allocates nothing of its own.
  alignas(16) std::array<std::byte, 3072> first_block_;
  std::pmr::monotonic_buffer_resource arena_{first_block_.data(), first_block_.size()};
  Resolver& resolver_;
  bool finished_ = false;

 public:
  ReadSet reads{arena_};
  WriteSet writes{arena_};
  ReadPoint point;
};

}  // namespace spate::trove
