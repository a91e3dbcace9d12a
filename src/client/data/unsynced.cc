// SPDX-License-Identifier: Apache-2.0
#include "client/data/unsynced.h"

#include <algorithm>
#include <utility>

#include "model/defect.h"

namespace spate::client {

void UnsyncedFile::lose(UnsyncedSlot& slot) {
  ++losses_;
  slot.since.reset();
}

void UnsyncedFile::note_written(std::span<const SlotState> slots) {
  for (const SlotState& s : slots) {
    UnsyncedSlot& slot = slots_[s.slot];
    if (slot.since && *slot.since != s.incarnation) lose(slot);
    slot.first = slot.since ? std::min(slot.first, s.state.change_counter) : s.state.change_counter;
    slot.since = s.incarnation;
    slot.dirty = true;
  }
}

void UnsyncedFile::note_all() {
  for (std::uint32_t slot = 0; slot < slot_count_; ++slot) slots_[slot].dirty = true;
}

std::vector<std::uint32_t> UnsyncedFile::take_dirty() {
  if (std::exchange(assumed_, false)) note_all();
  std::vector<std::uint32_t> dirty;
  for (auto& [number, slot] : slots_) {
    if (!std::exchange(slot.dirty, false)) continue;
    slot.taken = std::exchange(slot.first, kNone);
    dirty.push_back(number);
  }
  return dirty;
}

void UnsyncedFile::put_back(std::span<const std::uint32_t> slots) {
  for (const std::uint32_t number : slots) {
    UnsyncedSlot& slot = slots_[number];
    slot.dirty = true;
    slot.first = std::min(slot.first, std::exchange(slot.taken, kNone));
  }
}

void UnsyncedFile::synced(std::span<const SlotState> slots) {
  for (const SlotState& s : slots) {
    const auto found = slots_.find(s.slot);
    if (found == slots_.end()) continue;
    UnsyncedSlot& slot = found->second;
    const bool lost = s.lost != 0 && s.lost >= slot.taken;
    slot.taken = kNone;
    if (slot.since && (lost || *slot.since != s.incarnation)) lose(slot);
    if (!slot.dirty) {
      slots_.erase(found);
    } else if (slot.first != kNone) {  // written again during the sync
      slot.since = s.incarnation;
    }
  }
}

bool UnsyncedFile::all_safe() const {
  return std::none_of(slots_.begin(), slots_.end(), [](const auto& entry) { return entry.second.since.has_value(); });
}

bool UnsyncedFile::clean() const { return slots_.empty() && losses_ == losses_told_; }

UnsyncedFiles::FilePtr UnsyncedFiles::join(Handle handle, std::uint32_t slot_count, bool made) {
  if (planted(Defect::kFsyncOfOwnWrites)) {
    auto own = std::make_shared<UnsyncedFile>(handle, slot_count, executor_);
    own->users_ = 2;  // so that it never gets among the closed files
    return own;
  }
  const auto [entry, fresh] = files_.try_emplace(handle);
  if (fresh) {
    entry->second = std::make_shared<UnsyncedFile>(handle, slot_count, executor_);
    entry->second->assumed_ = forgotten_ && !made;
  }
  const FilePtr file = entry->second;
  if (file->users_++ == 0 && !fresh) closed_.erase(file->place_);
  return file;
}

void UnsyncedFiles::leave(FilePtr file, bool removed) {
  if (--file->users_ > 0) return;
  if (file->clean()) {
    files_.erase(file->handle);
    return;
  }
  file->removed_ = removed;
  file->place_ = closed_.insert(closed_.end(), file);
  while (closed_.size() > most_closed_) drop_oldest();
}

void UnsyncedFiles::drop_oldest() {
  if (!closed_.front()->removed_) forgotten_ = true;
  files_.erase(closed_.front()->handle);
  closed_.pop_front();
}

void UnsyncedFiles::note_cut(Handle handle, std::uint32_t slot_count) {
  const FilePtr file = join(handle, slot_count, false);
  file->note_all();
  leave(file, false);
}

}  // namespace spate::client
