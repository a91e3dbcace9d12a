// SPDX-License-Identifier: Apache-2.0
#include "server/io/datafile_table.h"

namespace spate::io {

DatafileTable::Use DatafileTable::use(const DatafileKey& key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    Entry& entry = *found->second;
    if (entry.users_ == 0) in_use_.splice(in_use_.begin(), idle_, entry.position_);
    return Use(entry);
  }
  Entry& entry = in_use_.emplace_front(*this, key);
  entry.position_ = in_use_.begin();
  entries_.emplace(key, &entry);
  trim();
  return Use(entry);
}

/// The entry has no users any more, so it may be dropped.
void DatafileTable::retire(Entry& entry) {
  idle_.splice(idle_.begin(), in_use_, entry.position_);
  trim();
}

void DatafileTable::trim() {
  while (entries_.size() > max_entries_ && !idle_.empty()) {
    Entry& oldest = idle_.back();
    close(oldest);
    entries_.erase(oldest.key);
    idle_.pop_back();
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
