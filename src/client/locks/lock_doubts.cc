// SPDX-License-Identifier: Apache-2.0
#include "client/locks/lock_doubts.h"

#include <algorithm>

namespace spate::client {
namespace {

template <typename Requests, typename Condition>
void erase_left(Requests& requests, Condition condition) {
  std::erase_if(requests, [&](const auto& entry) {
    const auto& [sequence, request] = entry;
    if (!request.left || !condition(sequence, request)) return false;
    if (request.note != nullptr) request.note->end_wait(sequence);
    return true;
  });
}

}  // namespace

void LockDoubts::leave(std::uint64_t sequence, HandoverState* note) {
  const auto found = requests_.find(sequence);
  if (found == requests_.end()) return;
  found->second.left = true;
  found->second.note = note;
}

void LockDoubts::settle(const wire::LockSpec& lock, std::uint64_t sequence) {
  requests_.erase(sequence);
  erase_left(requests_, [&](std::uint64_t earlier, const Request& request) {
    return earlier < sequence && request.is_of(lock.handle, {lock.kind, lock.owner}) &&
           request.lock.first >= lock.first && request.lock.last <= lock.last;
  });
}

void LockDoubts::forget() {
  erase_left(requests_, [](std::uint64_t, const Request&) { return true; });
}

bool LockDoubts::any(Handle handle, const LockHolder& holder) const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [&](const auto& entry) { return entry.second.is_of(handle, holder); });
}

std::vector<wire::LockSpec> LockDoubts::weaker(Handle handle, const LockHolder& holder,
                                               const LockRanges& ranges) const {
  std::vector<wire::LockSpec> all;
  LockRanges left = ranges;
  for (const auto& [sequence, request] : requests_) {
    if (!request.is_of(handle, holder)) continue;
    const std::vector<HeldLock> before = left.pieces();
    for (const HeldLock& piece : before) {
      wire::LockSpec weak = request.lock;
      if (piece.mode <= weak.mode || !piece.range.overlaps({weak.first, weak.last})) continue;
      weak.first = std::max(weak.first, piece.range.first);
      weak.last = std::min(weak.last, piece.range.last);
      left.set({weak.first, weak.last}, weak.mode);
      all.push_back(weak);
    }
  }
  return all;
}

}  // namespace spate::client
