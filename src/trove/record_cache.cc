// SPDX-License-Identifier: Apache-2.0
#include "trove/record_cache.h"

#include <iterator>
#include <string_view>

namespace spate::trove {

std::size_t RecordCache::Hash::operator()(ByteView key) const {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(key.data()), key.size()});
}

std::optional<ByteView> RecordCache::find(ByteView key) {
  const auto at = records_.find(key);
  if (at == records_.end()) return std::nullopt;
  by_use_.splice(by_use_.begin(), by_use_, *at);
  return (*at)->value();
}

void RecordCache::put(ByteView key, ByteView value) {
  const std::size_t size = size_of(key, value);
  const auto at = records_.find(key);
  if (key.size() + value.size() > kMostRecordBytes || size > max_bytes_) {
    if (at != records_.end()) drop(at);
    return;
  }
  if (at != records_.end()) {
    Record& record = **at;
    bytes_ -= size_of(record.key(), record.value());
    record.both.resize(record.key_size);
    record.both.insert(record.both.end(), value.begin(), value.end());
    by_use_.splice(by_use_.begin(), by_use_, *at);
  } else {
    add(key, value);
  }
  bytes_ += size;
  shrink(max_bytes_);
}

/// A full cache takes the memory of its oldest record for the new one.
void RecordCache::add(ByteView key, ByteView value) {
  Set::node_type node;
  if (!by_use_.empty() && bytes_ + size_of(key, value) > max_bytes_) {
    const auto oldest = std::prev(by_use_.end());
    node = records_.extract(oldest);
    bytes_ -= size_of(oldest->key(), oldest->value());
    by_use_.splice(by_use_.begin(), by_use_, oldest);
  } else {
    by_use_.emplace_front();
  }
  Record& record = by_use_.front();
  record.both.clear();
  record.both.reserve(key.size() + value.size());
  record.both.insert(record.both.end(), key.begin(), key.end());
  record.both.insert(record.both.end(), value.begin(), value.end());
  record.key_size = key.size();
  if (node) {
    records_.insert(std::move(node));
  } else {
    records_.insert(by_use_.begin());
  }
}

void RecordCache::update(ByteView key, ByteView value) {
  if (records_.contains(key)) put(key, value);
}

void RecordCache::erase(ByteView key) {
  const auto at = records_.find(key);
  if (at != records_.end()) drop(at);
}

void RecordCache::shrink(std::size_t bytes) {
  while (bytes_ > bytes) drop(records_.find(by_use_.back().key()));
}

void RecordCache::drop(Set::iterator at) {
  const ByUse::iterator record = *at;
  bytes_ -= size_of(record->key(), record->value());
  records_.erase(at);
  by_use_.erase(record);
}

}  // namespace spate::trove
