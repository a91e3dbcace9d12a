// SPDX-License-Identifier: Apache-2.0
#include "trove/record_cache.h"

#include <string_view>

namespace spate::trove {

std::size_t RecordCache::Hash::operator()(ByteView key) const {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(key.data()), key.size()});
}

const Bytes* RecordCache::find(ByteView key) {
  const auto at = records_.find(key);
  if (at == records_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, at->second);
  return &at->second->value;
}

void RecordCache::put(ByteView key, ByteView value) {
  const std::size_t size = size_of(key, value);
  const auto at = records_.find(key);
  if (key.size() + value.size() > kMostRecordBytes || size > max_bytes_) {
    if (at != records_.end()) drop(at);
    return;
  }
  if (at != records_.end()) {
    Bytes& old = at->second->value;
    bytes_ += value.size();
    bytes_ -= old.size();
    old.assign(value.begin(), value.end());
    by_use_.splice(by_use_.begin(), by_use_, at->second);
  } else {
    by_use_.push_front({to_bytes(key), to_bytes(value)});
    records_.emplace(by_use_.front().key, by_use_.begin());
    bytes_ += size;
  }
  while (bytes_ > max_bytes_) drop(records_.find(by_use_.back().key));
}

void RecordCache::update(ByteView key, ByteView value) {
  if (records_.contains(key)) put(key, value);
}

void RecordCache::erase(ByteView key) {
  const auto at = records_.find(key);
  if (at != records_.end()) drop(at);
}

void RecordCache::drop(Map::iterator at) {
  const ByUse::iterator record = at->second;
  bytes_ -= size_of(record->key, record->value);
  records_.erase(at);
  by_use_.erase(record);
}

}  // namespace spate::trove
