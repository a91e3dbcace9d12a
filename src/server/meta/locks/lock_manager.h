// SPDX-License-Identifier: Apache-2.0
// LockManager: the locks of all sessions: requests, waits, and reclaims after a restart (docs/consistency.md, "Locks").
#pragma once

#include <map>
#include <set>
#include <unordered_map>

#include "server/meta/core/core.h"
#include "server/meta/locks/lock_table.h"
#include "server/meta/session/recovery_markers.h"
#include "server/meta/session/session_events.h"
#include "wire/lock_messages.h"

namespace spate::meta {

/// The locks are in memory. The store records only which sessions have taken any. After a restart no new lock is
/// granted until each of those sessions has reclaimed its locks, and its earlier epochs have been released. One
/// executor; pinned. Life cycle: construct -> start() awaited -> requests; release() when a session's epoch has been
/// fenced.
class LockManager final : public SessionHoldings {
 public:
  LockManager(MetaCore& core, SessionEvents& events, LockLimits limits = {});

  /// Call it before SessionTable::start(), which begins to release locks.
  job::Task<Result<void>> start();

  // A lock request changes nothing in the store, so it has a sequence of its own.
  job::Task<Result<wire::LockReply>> lock(rpc::Call& call, wire::LockRequest request);
  job::Task<Result<wire::LockTestReply>> test(rpc::Call& call, wire::LockTestRequest request);
  job::Task<Result<wire::LockCancelReply>> cancel(rpc::Call& call, wire::LockCancelRequest request);
  job::Task<Result<wire::LockReclaimReply>> reclaim(rpc::Call& call, wire::LockReclaimRequest request);
  std::vector<ClientId> noted() const override;
  job::Task<Result<void>> release(ClientId client, std::uint32_t below_epoch, job::StopToken stop) override;

  const LockTable& table() const { return table_; }
  /// True after a restart, while sessions still have to reclaim their locks. No new lock is granted then.
  bool in_grace();

 private:
  /// The lock requests of one epoch of a session.
  struct SessionLocks {
    std::uint32_t epoch = 0;
    bool recorded = false;                                     // the store has a marker of it
    std::uint64_t floor = 0;                                   // requests below it are late copies
    std::map<std::uint64_t, Result<wire::LockReply>> answers;  // by sequence, from floor on
  };

  Result<void> admit(const rpc::Call& call) const;
  job::Task<Result<void>> check_user(const rpc::Call& call, wire::LockSpec lock) const;
  job::Task<Result<std::set<std::uint32_t>>> forbidden(const rpc::Call& call, std::vector<wire::LockSpec> locks) const;
  Result<LockParams> params_of(const rpc::Call& call, const wire::LockSpec& lock) const;
  SessionLocks& session_of(const rpc::Call& call);
  Result<std::optional<wire::LockReply>> earlier_answer(SessionLocks& session, const wire::LockRequest& request) const;
  Result<wire::LockReply> decide(const LockParams& params, const wire::LockRequest& request);
  void claimed_all(ClientId client, std::uint32_t epoch);
  void tell_changes();

  MetaCore& core_;
  SessionEvents& events_;
  RecoveryMarkers markers_;
  LockTable table_;
  MonoTime forfeit_;
  std::unordered_map<ClientId, SessionLocks> sessions_;
  std::map<ClientId, std::uint32_t> reclaimed_;  // the epoch that has reclaimed the locks from before the restart
  /// Sessions that have reclaimed their locks before the server has released their earlier epochs.
  std::set<ClientId> claimed_too_soon_;
};

}  // namespace spate::meta
