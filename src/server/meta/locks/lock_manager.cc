// SPDX-License-Identifier: Apache-2.0
#include "server/meta/locks/lock_manager.h"

#include <algorithm>

#include "log/log.h"
#include "model/defect.h"

namespace spate::meta {

LockManager::LockManager(MetaCore& core, SessionEvents& events, LockLimits limits)
    : core_(core),
      events_(events),
      markers_(core, {"lock", &lock_holder_key, &lock_holders, &parse_lock_holder_key}),
      table_(limits) {}

job::Task<Result<void>> LockManager::start() {
  forfeit_ = core_.executor().now() + core_.options().session_lease * 2;
  SPATE_CO_TRY(std::ignore, co_await markers_.load());
  const std::size_t sessions = markers_.pending().size();
  if (sessions > 0) SPATE_LOG("server/meta", info, "locks are to be claimed again sessions={}", sessions);
  co_return {};
}

bool LockManager::in_grace() {
  auto& pending = markers_.pending();
  Sessions& sessions = *core_.parts().sessions;
  std::erase_if(claimed_too_soon_, [&](ClientId client) {
    if (sessions.is_ending(client)) return false;
    pending.erase(client);
    return true;
  });
  if (pending.empty() || core_.executor().now() < forfeit_) return !pending.empty();
  if (planted(Defect::kShortGrace)) {
    std::erase_if(pending, [&](const auto& holder) { return !sessions.is_ending(holder.first); });
    return !pending.empty();
  }
  // A live client that does not reclaim its locks may believe that it still has them, and write. So its epoch ends,
  // which also removes its marker.
  for (const ClientId client : markers_.pending_clients()) {
    if (!sessions.is_ending(client)) sessions.end_epoch(client, "it has not claimed its locks after a restart");
  }
  return !pending.empty();
}

/// The session has reclaimed the locks of its present epoch. The locks of an earlier epoch are forgotten, and nobody
/// reclaims them. Others wait until that epoch is released.
void LockManager::claimed_all(ClientId client, std::uint32_t epoch) {
  reclaimed_[client] = epoch;
  if (core_.parts().sessions->is_ending(client) && !planted(Defect::kHastyClaim)) {
    claimed_too_soon_.insert(client);
  } else {
    markers_.pending().erase(client);
  }
}

job::Task<Result<void>> LockManager::release(ClientId client, std::uint32_t below_epoch, job::StopToken stop) {
  const auto found = sessions_.find(client);
  if (found != sessions_.end() && found->second.epoch < below_epoch) sessions_.erase(found);
  table_.release_client(client, below_epoch);
  markers_.forget(client, below_epoch);
  const auto reclaimed = reclaimed_.find(client);
  if (reclaimed != reclaimed_.end() && reclaimed->second < below_epoch) reclaimed_.erase(reclaimed);
  tell_changes();
  auto done = co_await markers_.remove(client, below_epoch, stop);
  co_return done;
}

std::vector<ClientId> LockManager::noted() const { return markers_.pending_clients(); }

LockManager::SessionLocks& LockManager::session_of(const rpc::Call& call) {
  std::ignore = events_.listen(call);
  SessionLocks& session = sessions_[call.header.client];
  if (session.epoch < call.header.session_epoch) session = SessionLocks{call.header.session_epoch, false, 0, {}};
  return session;
}

void LockManager::tell_changes() {
  for (const LockTable::Ended& ended : table_.take_ended()) {
    const auto type = ended.granted ? wire::SessionEventType::kLockGranted : wire::SessionEventType::kLockRefused;
    events_.tell(ended.wait.client, ended.wait.epoch, type, ended.wait.number);
  }
  for (const LockTable::Recall& recall : table_.take_recalls()) {
    events_.tell(recall.owner.client, recall.owner.epoch, wire::SessionEventType::kAppendRecalled, recall.handle.value);
  }
}

}  // namespace spate::meta
