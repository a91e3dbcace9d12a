// SPDX-License-Identifier: Apache-2.0
#include "client/held_changes.h"

#include "wire/meta_messages.h"

namespace spate::client {
namespace {

using Kept = GatherMemory::Later;

Rights rights_of_open(std::uint64_t open_flags) {
  const bool reads = (open_flags & wire::kOpenRead) != 0;
  const bool writes = (open_flags & wire::kOpenWrite) != 0;
  if (reads && writes) return Rights::kReadWrite;
  return writes ? Rights::kWrite : Rights::kRead;
}

}  // namespace

void HeldChanges::begin(Handle file, GatherMemory::Piece& piece) {
  const std::lock_guard lock(mutex_);
  pieces_[file] = &piece;
  files_ = pieces_.size();
}

void HeldChanges::refuse() {
  const std::lock_guard lock(mutex_);
  refuses_ = true;
}

bool HeldChanges::has(Handle file) const {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  return pieces_.contains(file);
}

std::optional<ChangesAfterData::Held> HeldChanges::find(Handle file) const {
  const std::lock_guard lock(mutex_);
  const auto found = pieces_.find(file);
  if (found == pieces_.end()) return std::nullopt;
  const Kept& kept = found->second->later;
  Held held;
  held.rights = rights_of_open(kept.open_flags);
  held.closed = kept.closed != 0;
  held.set = kept.set != 0;
  if ((kept.set & Kept::kMode) != 0) held.later.mode = static_cast<std::uint32_t>(kept.mode);
  if ((kept.set & Kept::kAtime) != 0) held.later.atime = kept.atime;
  if ((kept.set & Kept::kMtime) != 0) held.later.mtime = kept.mtime;
  held.later.at = kept.at;
  return held;
}

/// Null: nothing of the file may wait. Call it with the lock held.
GatherMemory::Later* HeldChanges::later_of(Handle file) {
  const auto found = pieces_.find(file);
  return found == pieces_.end() || refuses_ ? nullptr : &found->second->later;
}

/// A killed process leaves each value as before or as set; if the call was not answered, the kernel repeats it.
bool HeldChanges::set(Handle file, const Later& later) {
  const std::lock_guard lock(mutex_);
  Kept* const kept = later_of(file);
  if (kept == nullptr) return false;
  std::uint64_t set = kept->set;
  if (later.mode) kept->mode = *later.mode, set |= Kept::kMode;
  if (later.atime) kept->atime = *later.atime, set |= Kept::kAtime;
  if (later.mtime) kept->mtime = *later.mtime, set |= Kept::kMtime;
  kept->at = later.at;
  std::atomic_ref(kept->set).store(set, std::memory_order_release);
  ++held_;
  return true;
}

bool HeldChanges::close(Handle file) {
  const std::lock_guard lock(mutex_);
  Kept* const kept = later_of(file);
  if (kept == nullptr) return false;
  std::atomic_ref(kept->closed).store(1, std::memory_order_release);
  ++held_;
  return true;
}

void HeldChanges::end(Handle file) {
  const std::lock_guard lock(mutex_);
  pieces_.erase(file);
  files_ = pieces_.size();
}

}  // namespace spate::client
