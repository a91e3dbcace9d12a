// SPDX-License-Identifier: Apache-2.0
// TransactionState: what every module's transaction keeps: its reads, its writes, its place in the commit order.
#pragma once

#include <array>
#include <memory_resource>
#include <utility>
#include <vector>

#include "trove/read_set.h"
#include "trove/resolver.h"
#include "trove/write_set.h"

namespace spate::trove {

/// What the store holds in a range, in key order; `more`: it was not read to its end.
struct StoreEntries {
  std::vector<KeyValue> entries;
  bool more = false;
};

/// Pinned. Life: begun by the constructor, ended by finish() or the destructor. One thread, the resolver's.
class TransactionState {
 public:
  explicit TransactionState(Resolver& resolver) : resolver_(resolver) { resolver_.begin(point); }
  TransactionState(const TransactionState&) = delete;
  TransactionState& operator=(const TransactionState&) = delete;
  ~TransactionState() { resolver_.end(point); }

  /// The answer to a get that needs no store: the transaction has written the key itself. Nothing is added to the
  /// reads, as no other transaction has a part in it. False: `done` is untouched, ask the store.
  bool get_own(ByteView key, KeyvalCompletion& done) const;
  void note_key(ByteView key, ReadMode mode) {
    if (mode == ReadMode::kChecked) reads.add_key(key);
  }
  /// How many entries the store must give so that `range` can be answered and its `more` decided.
  std::size_t wanted(const KeyRange& range) const;
  /// Turns what the store holds in a range into the answer: lays `own` (the writes as they were when the read was
  /// posted) over it, cuts it to the limit, notes what was read.
  void finish_range(const KeyRange& range, StoreEntries found, const WriteSet& own, KeyvalCompletion& done);

  /// Uses the transaction up. False: kConflict.
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
