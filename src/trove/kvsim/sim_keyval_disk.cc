// SPDX-License-Identifier: Apache-2.0
#include "trove/kvsim/sim_keyval_disk.h"

#include "base/check.h"

namespace spate::trove {

void SimKeyvalDisk::attach() {
  SPATE_CHECK(!attached_);
  attached_ = true;
}

void SimKeyvalDisk::detach() { attached_ = false; }

void SimKeyvalDisk::lay_over(Contents& contents, const Batch& batch) {
  for (const BatchWrite& write : batch) {
    if (write.value) {
      contents.insert_or_assign(write.key, *write.value);
    } else {
      contents.erase(write.key);
    }
  }
}

Batch SimKeyvalDisk::contents() const {
  Contents all = synced_;
  for (const Batch& batch : unsynced_) lay_over(all, batch);
  Batch result;
  result.reserve(all.size());
  for (auto& [key, value] : all) result.push_back({key, std::move(value)});
  return result;
}

void SimKeyvalDisk::append(Batch batch) {
  unsynced_.push_back(std::move(batch));
  ++position_;
}

void SimKeyvalDisk::sync_to(std::uint64_t position) {
  SPATE_CHECK(position <= position_);
  while (position_ - unsynced_.size() < position) {
    lay_over(synced_, unsynced_.front());
    unsynced_.pop_front();
  }
}

void SimKeyvalDisk::crash_machine(Random& random) {
  SPATE_CHECK(!attached_);
  const std::uint64_t survivors = random.below(unsynced_.size() + 1);
  const std::uint64_t lost = unsynced_.size() - survivors;
  sync_to(position_ - lost);
  unsynced_.clear();
  position_ -= lost;
}

}  // namespace spate::trove
