// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/lock_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace spate::cluster {
namespace {

bool know_each_other(LockKind a, LockKind b) { return (a == LockKind::kFlock) == (b == LockKind::kFlock); }

}  // namespace

void LockModel::begin(const LockClaim& claim, const wire::LockSpec& lock) {
  for (Hold& hold : holds_[lock.handle.value]) {
    const bool same =
        hold.claim.client == claim.client && hold.claim.kind == claim.kind && hold.claim.number == claim.number;
    if (same) hold.ranges.set({lock.first, lock.last}, LockMode::kNone);
  }
}

const LockModel::Hold* LockModel::in_the_way(const LockClaim& claim, const wire::LockSpec& lock,
                                             MonoTime since_before) const {
  const auto file = holds_.find(lock.handle.value);
  if (file == holds_.end()) return nullptr;
  for (const Hold& hold : file->second) {
    if (hold.claim == claim || !know_each_other(hold.claim.kind, claim.kind) || hold.since >= since_before) continue;
    if (!hold.ranges.in_the_way_of({lock.first, lock.last}, lock.mode)) continue;
    if (still_held_(lock.handle.value, hold.claim)) return &hold;
  }
  return nullptr;
}

std::string LockModel::granted(const LockClaim& claim, const wire::LockSpec& lock, MonoTime now) {
  if (!still_held_(lock.handle.value, claim)) return {};  // the session has ended before the answer has arrived
  ++grants_;
  if (const Hold* hold = in_the_way(claim, lock, MonoTime::never())) {
    return fmt::format("it has bytes {}..{} of file {}, which client {} (kind {}, owner {}) has locked", lock.first,
                       lock.last, lock.handle.value, hold->claim.client, static_cast<int>(hold->claim.kind),
                       hold->claim.number);
  }
  auto& holds = holds_[lock.handle.value];
  auto mine = std::find_if(holds.begin(), holds.end(), [&claim](const Hold& hold) { return hold.claim == claim; });
  if (mine == holds.end()) mine = holds.insert(holds.end(), Hold{claim, {}, now});
  mine->ranges.set({lock.first, lock.last}, lock.mode);
  mine->since = now;
  return {};
}

std::string LockModel::found_free(const LockClaim& claim, const wire::LockSpec& lock, MonoTime begun) const {
  const Hold* hold = in_the_way(claim, lock, begun);
  if (hold == nullptr) return {};
  return fmt::format("nobody is said to be in the way, but client {} has locked it", hold->claim.client);
}

void LockModel::leaves(int client) {
  for (auto& [handle, holds] : holds_) {
    std::erase_if(holds, [client](const Hold& hold) { return hold.claim.client == client; });
  }
}

}  // namespace spate::cluster
