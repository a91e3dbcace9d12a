// SPDX-License-Identifier: Apache-2.0
// RecordCache: the records of a store that were read or written last, as they are now.
#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>

#include "base/bytes.h"
#include "trove/key_order.h"

namespace spate::trove {

/// Least recently used goes first. Knows nothing of versions: its owner asks it only for reads of the present state, and
/// tells it of each change. Holds no absent keys. Not thread-safe.
class RecordCache {
 public:
  /// A larger record would push out too many others.
  static constexpr std::size_t kMostRecordBytes = 4096;

  /// `max_bytes`: of keys, values and what it takes to keep them; 0 = nothing is kept.
  explicit RecordCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  RecordCache(const RecordCache&) = delete;
  RecordCache& operator=(const RecordCache&) = delete;

  /// Null when it is not here, whatever the store holds. Valid until the next put() or erase().
  const Bytes* find(ByteView key);
  void put(ByteView key, ByteView value);
  /// put() of what is here already.
  void update(ByteView key, ByteView value);
  void erase(ByteView key);

  std::size_t bytes() const { return bytes_; }
  std::size_t records() const { return records_.size(); }

 private:
  struct Record {
    Bytes key;
    Bytes value;
  };
  struct Hash {
    std::size_t operator()(ByteView key) const;
  };
  struct Same {
    bool operator()(ByteView a, ByteView b) const { return same_key(a, b); }
  };
  using ByUse = std::list<Record>;  // the last used first
  using Map = std::unordered_map<ByteView, ByUse::iterator, Hash, Same>;  // keys lie in the records

  static std::size_t size_of(ByteView key, ByteView value) { return key.size() + value.size() + kOverhead; }
  void drop(Map::iterator at);

  static constexpr std::size_t kOverhead = 208;  // two nodes and the heap's share of four blocks, glibc on x86-64
  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  ByUse by_use_;
  Map records_;
};

}  // namespace spate::trove
