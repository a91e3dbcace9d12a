// SPDX-License-Identifier: Apache-2.0
#include "client/held_changes.h"

#include <utility>

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

// Data.

bool HeldChanges::keep(const Write& write, WallTime now) {
  const std::uint64_t end = write.offset + write.bytes.size();
  if (gathering_.memory == nullptr || write.bytes.empty() || end > GatherMemory::kPieceBytes) return false;
  bool half_full = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(write.file.handle);
    if (found != files_.end()) {
      GatherMemory::Piece& piece = *found->second.piece;
      if (found->second.sending || piece.later.set != 0 || write.offset != piece.end()) return false;
      gathering_.memory->add(piece, write.bytes, now);
      return true;
    }
    if (!begin(write, now)) return false;
    half_full = !told_ && gathering_.memory->used() * 2 >= gathering_.memory->pieces();
    told_ |= half_full;
  }
  if (half_full) gathering_.half_full();
  return true;
}

/// Call it with the lock held. The log is asked under the lock: if the creation leaves it now, take_fresh() follows and
/// finds the file.
bool HeldChanges::begin(const Write& write, WallTime now) {
  if (refuses_ || write.offset != 0 || !gathering_.may_begin()) return false;
  if (!write.made && !log_.makes(write.file.handle)) return false;
  const QueueMemory::Owner owner = log_.owner();
  GatherMemory::Piece like;
  like.handle = write.file.handle;
  like.client = owner.client;
  like.epoch = owner.epoch;
  like.later.queued = 1;
  like.later.open_flags = write.file.open_flags;
  GatherMemory::Piece* const piece = gathering_.memory->take(like, gathering_.name_of(write.file.handle));
  if (piece == nullptr) return false;
  gathering_.memory->add(*piece, write.bytes, now);
  files_[write.file.handle].piece = piece;
  count_ = files_.size();
  fresh_.push_back({write.file, piece});
  return true;
}

void HeldChanges::take_over(GatherMemory::Piece& piece) {
  const std::lock_guard lock(mutex_);
  File& file = files_[piece.handle];
  file.piece = &piece;
  file.sending = true;
  count_ = files_.size();
}

void HeldChanges::begin_sending(Handle file) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(file);
  if (found != files_.end()) found->second.sending = true;
}

std::vector<HeldChanges::Fresh> HeldChanges::take_fresh() {
  if (!any()) return {};
  const std::lock_guard lock(mutex_);
  told_ = false;
  return std::exchange(fresh_, {});
}

// Changes.

bool HeldChanges::when_closed(Handle file, Then then) {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return false;
  found->second.when_closed = std::move(then);
  return true;
}

HeldChanges::Then HeldChanges::take_closed(Handle file) {
  const std::lock_guard lock(mutex_);
  const auto found = closed_.find(file);
  if (found == closed_.end()) return {};
  Then then = std::move(found->second);
  closed_.erase(found);
  return then;
}

void HeldChanges::refuse() {
  const std::lock_guard lock(mutex_);
  refuses_ = true;
}

bool HeldChanges::has(Handle file) const {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  return files_.contains(file);
}

std::optional<ChangesAfterData::Held> HeldChanges::find(Handle file) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return std::nullopt;
  const Kept& kept = found->second.piece->later;
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
  const auto found = files_.find(file);
  return found == files_.end() || refuses_ ? nullptr : &found->second.piece->later;
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
  const auto found = files_.find(file);
  if (found == files_.end()) return;
  File& ended = found->second;
  if (ended.piece->later.closed != 0 && ended.when_closed) closed_[file] = std::move(ended.when_closed);
  files_.erase(found);
  count_ = files_.size();
}

}  // namespace spate::client
