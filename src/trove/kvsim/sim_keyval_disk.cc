// SPDX-License-Identifier: Apache-2.0
#include "trove/kvsim/sim_keyval_disk.h"

#include "base/check.h"

namespace spate::trove {

void SimKeyvalDisk::attach() {
  SPATE_CHECK(!attached_);
  attached_ = true;
  ++log_;
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
  for (const Commit& commit : commits_) lay_over(all, commit.batch);
  Batch result;
  result.reserve(all.size());
  for (auto& [key, value] : all) result.push_back({key, std::move(value)});
  return result;
}

void SimKeyvalDisk::append(Batch batch) {
  commits_.push_back({std::move(batch), log_, false});
  ++position_;
}

void SimKeyvalDisk::sync_log(std::uint64_t first, std::uint64_t last, std::uint64_t position) {
  SPATE_CHECK(position <= position_);
  std::uint64_t at = position_ - commits_.size();
  for (Commit& commit : commits_) {
    if (++at <= position && first <= commit.log && commit.log <= last) commit.synced = true;
  }
  settle_synced();
}

void SimKeyvalDisk::sync_to(std::uint64_t position) { sync_log(log_, log_, position); }

void SimKeyvalDisk::sync_recovered() { sync_log(0, log_ - 1, position_); }

void SimKeyvalDisk::settle_synced() {
  while (!commits_.empty() && commits_.front().synced) {
    lay_over(synced_, commits_.front().batch);
    commits_.pop_front();
  }
}

void SimKeyvalDisk::crash_machine(Random& random) {
  SPATE_CHECK(!attached_);
  std::map<std::uint64_t, std::uint64_t> unsynced{{log_, 0}};  // how many, by log
  for (const Commit& commit : commits_) unsynced[commit.log] += commit.synced ? 0 : 1;
  for (auto& [log, count] : unsynced) count = random.below(count + 1);  // how many stay
  for (Commit& commit : commits_) {
    std::uint64_t& stay = unsynced[commit.log];
    if (commit.synced || stay == 0) continue;
    --stay;
    commit.synced = true;
  }
  position_ -= std::erase_if(commits_, [](const Commit& commit) { return !commit.synced; });
  settle_synced();
}

}  // namespace spate::trove
