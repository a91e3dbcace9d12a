// SPDX-License-Identifier: Apache-2.0
// WriteSet: what a transaction has written and not yet committed, laid over what it reads from the store. Batch: the
// writes of one commit.
#pragma once

#include <map>
#include <memory_resource>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "trove/key_order.h"
#include "trove/keyval.h"

namespace spate::trove {

/// Ordered by key; the last write of a key counts. Copies bytes into the arena, which outlives it and only grows:
/// writing a key again takes new space unless the new value fits in the old one's place. Not thread-safe.
class WriteSet {
 public:
  struct Write {
    ByteView value;
    std::size_t room = 0;  // bytes that `value` may use where it is
    bool erased = false;
  };
  using Map = std::pmr::map<ByteView, Write, KeyLess>;

  explicit WriteSet(std::pmr::memory_resource& arena) : arena_(arena), writes_(&arena) {}
  WriteSet(const WriteSet&) = delete;
  WriteSet& operator=(const WriteSet&) = delete;

  void put(ByteView key, ByteView value);
  void erase(ByteView key);

  bool empty() const { return writes_.empty(); }
  std::size_t size() const { return writes_.size(); }
  /// Null when the key was not written; valid until the key is written again.
  const Write* find(ByteView key) const;
  /// In key order.
  Map::const_iterator begin() const { return writes_.begin(); }
  Map::const_iterator end() const { return writes_.end(); }

  /// How many keys of [begin, end) this transaction has erased. A read may have to skip that many of the store's
  /// entries.
  std::size_t erased_in(ByteView begin, ByteView end) const;
  /// Lays the writes in [begin, end) over `entries`, the store's entries there, in order. If `more`, the store has
  /// further entries after the last one of `entries`; writes beyond that one are left out.
  void overlay(ByteView begin, ByteView end, bool more, std::vector<KeyValue>& entries) const;
  /// Adds the writes in [begin, end) to `out`.
  void copy_range(ByteView begin, ByteView end, WriteSet& out) const;

 private:
  Write& slot(ByteView key);
  std::byte* allocate(std::size_t size);

  std::pmr::memory_resource& arena_;
  Map writes_;
};

/// A WriteSet with an arena of its own.
struct OwnedWrites {
  std::pmr::monotonic_buffer_resource arena;
  WriteSet writes{arena};
};

/// A key's new value. No value: the commit erases the key.
struct BatchWrite {
  Bytes key;
  std::optional<Bytes> value;
};

/// The writes are in key order, and each key appears once.
using Batch = std::vector<BatchWrite>;

inline Batch batch_of(const WriteSet& writes) {
  Batch batch;
  batch.reserve(writes.size());
  for (const auto& [key, write] : writes) {
    batch.push_back({to_bytes(key), write.erased ? std::nullopt : std::optional(to_bytes(write.value))});
  }
  return batch;
}

}  // namespace spate::trove
