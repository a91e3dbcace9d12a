// SPDX-License-Identifier: Apache-2.0
// The order of keys: bytes are compared as unsigned numbers, and a prefix comes before longer keys. Stores depend on it
// (docs/disk-keyval.md), so it never changes.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace spate::trove {

/// Returns < 0, 0 or > 0 if `a` comes before `b`, equals it or comes after it.
inline int compare_keys(ByteView a, ByteView b) {
  const std::size_t common = std::min(a.size(), b.size());
  const int by_bytes = common == 0 ? 0 : std::memcmp(a.data(), b.data(), common);
  if (by_bytes != 0) return by_bytes;
  return a.size() < b.size() ? -1 : (a.size() > b.size() ? 1 : 0);
}

/// Orders containers of Bytes or of ByteView, which can be searched with either.
struct KeyLess {
  using is_transparent = void;
  bool operator()(ByteView a, ByteView b) const { return compare_keys(a, b) < 0; }
};

/// The first key that comes after `key`.
inline Bytes key_after(Bytes key) {
  key.push_back(std::byte{0});
  return key;
}

inline bool same_key(ByteView a, ByteView b) { return a.size() == b.size() && compare_keys(a, b) == 0; }

}  // namespace spate::trove
