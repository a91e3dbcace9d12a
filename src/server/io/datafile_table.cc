// SPDX-License-Identifier: Apache-2.0
#include "server/io/datafile_table.h"

namespace spate::io {
namespace {

/// How many of the least recently used entries are examined to find one that is not in use.
constexpr int kMaxLooks = 64;

}  // namespace

DatafileTable::Use DatafileTable::use(const DatafileKey& key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return Use(*found->second);
  }
  if (entries_.size() >= max_entries_) forget_oldest();
  order_.emplace_front(executor_, key);
  entries_.emplace(key, order_.begin());
  return Use(order_.front());
}

void DatafileTable::forget_oldest() {
  auto it = order_.end();
  for (int looks = 0; looks < kMaxLooks && it != order_.begin(); ++looks) {
    --it;
    if (it->users_ > 0) continue;
    close(*it);
    entries_.erase(it->key);
    order_.erase(it);
    return;
  }
}

std::shared_ptr<const trove::OpenDatafile> DatafileTable::file(Entry& entry) {
  if (entry.file_ != nullptr) open_.splice(open_.begin(), open_, entry.in_open_);
  return entry.file_;
}

void DatafileTable::keep_open(Entry& entry, std::shared_ptr<const trove::OpenDatafile> file) {
  close(entry);
  if (open_.size() >= max_descriptors_) close(*open_.back());
  entry.file_ = std::move(file);
  open_.push_front(&entry);
  entry.in_open_ = open_.begin();
}

void DatafileTable::close(Entry& entry) {
  if (entry.file_ == nullptr) return;
  open_.erase(entry.in_open_);
  entry.file_ = nullptr;
}

}  // namespace spate::io
