// SPDX-License-Identifier: Apache-2.0
// RecordCache: the present values of the records that were read or written last.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <unordered_set>

#include "base/bytes.h"
#include "trove/key_order.h"

namespace spate::trove {

/// Evicts the least recently used record first. It knows no versions: its owner asks it only for reads of the present
/// state, and tells it each change. It does not remember absent keys. Not thread-safe.
class RecordCache {
 public:
  /// A larger record would push out too many others.
  static constexpr std::size_t kMostRecordBytes = 4096;

  /// `max_bytes`: limit of keys, values and the memory to hold them; 0: it keeps nothing.
  explicit RecordCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  RecordCache(const RecordCache&) = delete;
  RecordCache& operator=(const RecordCache&) = delete;

  /// Nothing if the cache has no record, whatever the store holds. The view is valid until the next call of another
  /// function.
  std::optional<ByteView> find(ByteView key);
  void put(ByteView key, ByteView value);
  /// Like put(), but only for a key that the cache has.
  void update(ByteView key, ByteView value);
  void erase(ByteView key);
  /// Evicts the least recently used until at most `bytes` are held. It may grow again later.
  void shrink(std::size_t bytes);

  std::size_t bytes() const { return bytes_; }
  std::size_t records() const { return records_.size(); }

 private:
  struct Record {
    Bytes both;  // the key, then the value: one block of the heap
    std::size_t key_size = 0;
    ByteView key() const { return ByteView(both).first(key_size); }
    ByteView value() const { return ByteView(both).subspan(key_size); }
  };
  using ByUse = std::list<Record>;  // the last used first
  static ByteView key_of(ByteView key) { return key; }
  static ByteView key_of(ByUse::iterator record) { return record->key(); }
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(ByteView key) const;
    std::size_t operator()(ByUse::iterator record) const { return (*this)(record->key()); }
  };
  struct Same {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return same_key(key_of(a), key_of(b));
    }
  };
  using Set = std::unordered_set<ByUse::iterator, Hash, Same>;

  static std::size_t size_of(ByteView key, ByteView value) { return key.size() + value.size() + kOverhead; }
  void add(ByteView key, ByteView value);
  void drop(Set::iterator at);

  static constexpr std::size_t kOverhead = 128;  // two nodes and the heap's share of three blocks, glibc on x86-64
  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  ByUse by_use_;
  Set records_;
};

}  // namespace spate::trove
