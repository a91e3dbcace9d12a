// SPDX-License-Identifier: Apache-2.0
#include "trove/versioned_map.h"

#include <algorithm>

namespace spate::trove {

void VersionedMap::apply(Version version, Batch batch, Version oldest) {
  for (BatchWrite& write : batch) {
    auto at = map_.lower_bound(write.key);
    const bool exists = at != map_.end() && same_key(at->first, write.key);
    if (!exists && !write.value) continue;
    if (!exists) at = map_.emplace_hint(at, std::move(write.key), std::vector<Stored>{});
    at->second.push_back({version, std::move(write.value)});
    if (exists) superseded_.push_back({version, at});
  }
  clean(oldest);
}

void VersionedMap::clean(Version oldest) {
  while (!superseded_.empty() && superseded_.front().by <= oldest) {
    const auto [by, entry] = superseded_.front();
    superseded_.pop_front();
    std::vector<Stored>& versions = entry->second;
    // A reader at `oldest` sees the last value at or before `oldest`. No reader sees earlier ones.
    const auto visible = std::find_if(versions.rbegin(), versions.rend(),
                                      [oldest](const Stored& stored) { return stored.version <= oldest; });
    if (visible != versions.rend()) versions.erase(versions.begin(), std::prev(visible.base()));
    if (versions.back().version == by && !versions.back().value) map_.erase(entry);
  }
}

const Bytes* VersionedMap::value_at(const std::vector<Stored>& versions, Version at) {
  for (auto stored = versions.rbegin(); stored != versions.rend(); ++stored) {
    if (stored->version <= at) return stored->value ? &*stored->value : nullptr;
  }
  return nullptr;
}

const Bytes* VersionedMap::get(ByteView key, Version at) const {
  const auto entry = map_.find(key);
  return entry == map_.end() ? nullptr : value_at(entry->second, at);
}

StoreEntries VersionedMap::range(ByteView begin, ByteView end, std::size_t wanted, Version at) const {
  StoreEntries found;
  for (auto entry = map_.lower_bound(begin); entry != map_.end() && compare_keys(entry->first, end) < 0; ++entry) {
    const Bytes* value = value_at(entry->second, at);
    if (value == nullptr) continue;
    if (found.entries.size() == wanted) {
      found.more = true;
      break;
    }
    found.entries.push_back({entry->first, *value});
  }
  return found;
}

}  // namespace spate::trove
