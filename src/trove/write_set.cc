// SPDX-License-Identifier: Apache-2.0
#include "trove/write_set.h"

namespace spate::trove {

std::byte* WriteSet::allocate(std::size_t size) {
  return static_cast<std::byte*>(arena_.allocate(size == 0 ? 1 : size, 1));
}

WriteSet::Write& WriteSet::slot(ByteView key) {
  const auto at = writes_.lower_bound(key);
  if (at != writes_.end() && same_key(at->first, key)) return at->second;
  std::byte* copy = allocate(key.size());
  std::copy(key.begin(), key.end(), copy);
  return writes_.emplace_hint(at, ByteView(copy, key.size()), Write{})->second;
}

void WriteSet::put(ByteView key, ByteView value) {
  Write& write = slot(key);
  std::byte* place = const_cast<std::byte*>(write.value.data());  // our own arena's bytes
  if (place == nullptr || write.room < value.size()) {
    place = allocate(value.size());
    write.room = value.size();
  }
  if (!value.empty()) std::memmove(place, value.data(), value.size());
  write.value = ByteView(place, value.size());
  write.erased = false;
}

void WriteSet::erase(ByteView key) {
  Write& write = slot(key);
  write.value = write.value.first(0);
  write.erased = true;
}

const WriteSet::Write* WriteSet::find(ByteView key) const {
  if (writes_.empty()) return nullptr;
  const auto at = writes_.find(key);
  return at == writes_.end() ? nullptr : &at->second;
}

std::size_t WriteSet::erased_in(ByteView begin, ByteView end) const {
  std::size_t count = 0;
  for (auto at = writes_.lower_bound(begin); at != writes_.end() && compare_keys(at->first, end) < 0; ++at) {
    count += at->second.erased ? 1 : 0;
  }
  return count;
}

void WriteSet::overlay(ByteView begin, ByteView end, bool more, std::vector<KeyValue>& entries) const {
  auto own = writes_.lower_bound(begin);
  if (own == writes_.end() || compare_keys(own->first, end) >= 0) return;
  std::vector<KeyValue> merged;
  merged.reserve(entries.size() + 4);
  const auto take_own = [&] {
    if (!own->second.erased) merged.push_back({to_bytes(own->first), to_bytes(own->second.value)});
    ++own;
  };
  for (KeyValue& entry : entries) {
    while (own != writes_.end() && compare_keys(own->first, entry.key) < 0) take_own();
    if (own != writes_.end() && same_key(own->first, entry.key)) {
      take_own();
    } else {
      merged.push_back(std::move(entry));
    }
  }
  while (!more && own != writes_.end() && compare_keys(own->first, end) < 0) take_own();
  entries = std::move(merged);
}

void WriteSet::copy_range(ByteView begin, ByteView end, WriteSet& out) const {
  for (auto at = writes_.lower_bound(begin); at != writes_.end() && compare_keys(at->first, end) < 0; ++at) {
    if (at->second.erased) {
      out.erase(at->first);
    } else {
      out.put(at->first, at->second.value);
    }
  }
}

}  // namespace spate::trove
