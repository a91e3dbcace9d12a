// SPDX-License-Identifier: Apache-2.0
#include "client/locks/held_locks.h"

#include <algorithm>

namespace spate::client {
namespace {

constexpr LockHolder kAppendRight{LockKind::kAppend, 0};

}  // namespace

HandoverState::Held handover_record(const wire::LockSpec& lock, std::uint32_t pid) {
  HandoverState::Held record;
  record.handle = lock.handle;
  record.kind = lock.kind;
  record.owner = lock.owner;
  record.pid = pid;
  record.mode = lock.mode;
  record.first = lock.first;
  record.last = lock.last;
  return record;
}

void HeldLocks::set(const wire::LockSpec& lock, HandoverState* handover) {
  auto& owners = held_[lock.handle];
  const LockHolder holder{lock.kind, lock.owner};
  Held& held = owners[holder];
  if (lock.mode != LockMode::kNone) held.pid = lock.pid;
  held.ranges.set({lock.first, lock.last}, lock.mode);
  if (handover != nullptr) handover->keep_held(handover_record(lock, held.pid), held.ranges.pieces());
  if (held.ranges.empty()) owners.erase(holder);
  if (owners.empty()) held_.erase(lock.handle);
}

void HeldLocks::inherit(const HandoverState::Held& piece) {
  Held& held = held_[piece.handle][{piece.kind, piece.owner}];
  // A right to append must be requested again, see Locks::holds().
  held.pid = piece.kind == LockKind::kAppend ? UINT32_MAX : piece.pid;
  held.ranges.set({piece.first, piece.last}, piece.mode);
}

const HeldLocks::Held* HeldLocks::find(Handle handle, const LockHolder& holder) const {
  const auto file = held_.find(handle);
  if (file == held_.end()) return nullptr;
  const auto held = file->second.find(holder);
  return held == file->second.end() ? nullptr : &held->second;
}

void HeldLocks::lose_all() {
  for (auto& [handle, owners] : held_) {
    for (auto& [holder, held] : owners) held.lost = true;
  }
}

bool HeldLocks::lose(Handle handle, const LockHolder& holder) {
  const auto file = held_.find(handle);
  if (file == held_.end()) return false;
  const auto held = file->second.find(holder);
  if (held == file->second.end()) return false;
  held->second.lost = true;
  return true;
}

bool HeldLocks::any_lost(Handle handle) const {
  const auto file = held_.find(handle);
  if (file == held_.end()) return false;
  return std::any_of(file->second.begin(), file->second.end(),
                     [](const auto& entry) { return entry.second.lost && entry.first.kind != LockKind::kAppend; });
}

bool HeldLocks::any_valid() const {
  const auto valid = [](const auto& owner) { return !owner.second.lost; };
  return std::any_of(held_.begin(), held_.end(),
                     [&](const auto& file) { return std::any_of(file.second.begin(), file.second.end(), valid); });
}

bool HeldLocks::any_append_right() const {
  return std::any_of(held_.begin(), held_.end(), [](const auto& file) {
    const auto right = file.second.find(kAppendRight);
    return right != file.second.end() && !right->second.lost;
  });
}

std::vector<Handle> HeldLocks::append_rights() const {
  std::vector<Handle> rights;
  for (const auto& [handle, owners] : held_) {
    if (owners.contains(kAppendRight)) rights.push_back(handle);
  }
  return rights;
}

std::vector<wire::LockSpec> HeldLocks::all_valid() const {
  std::vector<wire::LockSpec> all;
  for (const auto& [handle, owners] : held_) {
    for (const auto& [holder, held] : owners) {
      if (held.lost) continue;
      for (const HeldLock& lock : held.ranges.pieces())
        all.push_back({handle, holder.kind, holder.number, held.pid, lock.mode, lock.range.first, lock.range.last});
    }
  }
  return all;
}

std::vector<wire::LockSpec> HeldLocks::weaker(const LockDoubts& doubts) const {
  std::vector<wire::LockSpec> all;
  for (const auto& [handle, owners] : held_) {
    for (const auto& [holder, held] : owners) {
      if (held.lost) continue;
      const auto weaker = doubts.weaker(handle, holder, held.ranges);
      all.insert(all.end(), weaker.begin(), weaker.end());
    }
  }
  return all;
}

}  // namespace spate::client
