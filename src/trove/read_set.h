// SPDX-License-Identifier: Apache-2.0
// ReadSet: the keys and ranges that a transaction has read and wants unchanged when it commits.
#pragma once

#include <algorithm>
#include <memory_resource>
#include <vector>

#include "base/bytes.h"

namespace spate::trove {

/// Copies keys into the arena, which outlives the set. Not thread-safe.
class ReadSet {
 public:
  struct Range {  // [begin, end)
    ByteView begin;
    ByteView end;
  };

  explicit ReadSet(std::pmr::memory_resource& arena) : arena_(arena), keys_(&arena), ranges_(&arena) {}
  ReadSet(const ReadSet&) = delete;
  ReadSet& operator=(const ReadSet&) = delete;

  void add_key(ByteView key) { keys_.push_back(copy(key, {})); }
  void add_range(ByteView begin, ByteView end) { ranges_.push_back({copy(begin, {}), copy(end, {})}); }
  /// [begin, last], the last key included.
  void add_range_to(ByteView begin, ByteView last) {
    // The first key after `last` is `last` with a zero byte behind it.
    static constexpr std::byte kZero[1] = {};
    ranges_.push_back({copy(begin, {}), copy(last, kZero)});
  }

  bool empty() const { return keys_.empty() && ranges_.empty(); }
  const std::pmr::vector<ByteView>& keys() const { return keys_; }
  const std::pmr::vector<Range>& ranges() const { return ranges_; }

 private:
  ByteView copy(ByteView bytes, ByteView suffix) {
    const std::size_t size = bytes.size() + suffix.size();
    auto* place = static_cast<std::byte*>(arena_.allocate(size == 0 ? 1 : size, 1));
    std::copy(bytes.begin(), bytes.end(), place);
    std::copy(suffix.begin(), suffix.end(), place + bytes.size());
    return {place, size};
  }

  std::pmr::memory_resource& arena_;
  std::pmr::vector<ByteView> keys_;
  std::pmr::vector<Range> ranges_;
};

}  // namespace spate::trove
