// SPDX-License-Identifier: Apache-2.0
// Requests for locks.
#include <algorithm>

#include "server/meta/core/operation.h"
#include "server/meta/locks/lock_manager.h"
#include "server/meta/store/access.h"

namespace spate::meta {
namespace {

/// Most answers kept for one session, and so the most requests that it may have under way.
constexpr std::size_t kMostAnswers = 4096;

/// Whether LockManager::check_user has decided against a lock, rather than failed.
bool forbids(Errc code) {
  return code == Errc::kStaleHandle || code == Errc::kPermissionDenied || code == Errc::kReadOnly;
}

}  // namespace

Result<void> LockManager::admit(const rpc::Call& call) const {
  SPATE_TRY(std::ignore, core_.parts().sessions->admit(call));
  if (call.peer->kind == wire::PeerKind::kServer) return Error::told(Errc::kInvalidArgument, "servers have no locks");
  return {};
}

/// The holder of a user's key may lock only files that it may read or write, or has open, and learns the owners of
/// locks only there. The server trusts the holder of the client key, because the kernel of the client's machine has
/// checked the right when the program opened the file.
job::Task<Result<void>> LockManager::check_user(const rpc::Call& call, wire::LockSpec lock) const {
  if (lock.mode == LockMode::kNone) co_return {};  // releases a lock of its own
  job::Transaction store = core_.store().begin();
  const bool append = lock.kind == LockKind::kAppend;
  if (append && call.peer->reads_only()) co_return Errc::kReadOnly;
  SPATE_CO_TRY(const auto inode,
               co_await read_record<InodeRecord>(store, inode_key(lock.handle), trove::ReadMode::kSnapshot));
  if (!inode) co_return Errc::kStaleHandle;
  if (call.peer->is_confined()) {
    Confinement confinement(call);
    SPATE_CO_TRY(std::ignore, co_await confinement.admit(store, *inode, Reach::kInside));
  }
  const Credential& who = call.peer->credential;
  if (may(who, *inode, kWantWrite) || (!append && may(who, *inode, kWantRead))) co_return {};
  const StoreKey opened = open_key(lock.handle, call.header.client, call.header.session_epoch);
  SPATE_CO_TRY(const auto open, co_await read_record<OpenRecord>(store, opened, trove::ReadMode::kSnapshot));
  if (!open || (append && open->writers == 0)) co_return Errc::kPermissionDenied;
  co_return {};
}

/// Yields the places of those locks that the holder of a user's key may not have. A restart may have lost a file, or an
/// open of it.
job::Task<Result<std::set<std::uint32_t>>> LockManager::forbidden(const rpc::Call& call,
                                                                  std::vector<wire::LockSpec> locks) const {
  std::set<std::uint32_t> places;
  for (std::uint32_t i = 0; i < locks.size(); ++i) {
    const wire::LockSpec lock = locks[i];
    const auto checked = co_await check_user(call, lock);
    if (checked) continue;
    if (!forbids(checked.code())) co_return checked.error();
    places.insert(i);
  }
  co_return places;
}

Result<LockParams> LockManager::params_of(const rpc::Call& call, const wire::LockSpec& lock) const {
  const LockRange range{lock.first, lock.last};
  if (lock.kind < LockKind::kProcess || lock.kind > LockKind::kAppend || lock.mode > LockMode::kExclusive) {
    return Error::told(Errc::kInvalidArgument, "a kind or mode of lock that this server does not know");
  }
  const bool whole = lock.kind == LockKind::kFlock || lock.kind == LockKind::kAppend;
  if (!lock.handle || !range.valid() || (whole && range != LockRange{})) {
    return Error::told(Errc::kInvalidArgument, "a lock without a file or with an impossible range");
  }
  if (lock.kind == LockKind::kAppend && (lock.owner != 0 || lock.mode == LockMode::kShared)) {
    return Error::told(Errc::kInvalidArgument, "the right to append is a client's, and nobody shares it");
  }
  const LockOwner owner{call.header.client, call.header.session_epoch, lock.kind, lock.owner};
  return LockParams{lock.handle, owner, lock.mode, range, lock.pid};
}

/// The stored answer; nothing if the request is new. A sequence below the client's oldest outstanding one is a late
/// copy, and nobody waits for its answer.
Result<std::optional<wire::LockReply>> LockManager::earlier_answer(SessionLocks& session,
                                                                   const wire::LockRequest& request) const {
  if (request.sequence < session.floor) return Errc::kForgottenRequest;
  session.floor = std::max(session.floor, request.oldest);
  session.answers.erase(session.answers.begin(), session.answers.lower_bound(session.floor));
  const auto known = session.answers.find(request.sequence);
  if (known != session.answers.end()) {
    if (!known->second) return known->second.error();
    return std::optional<wire::LockReply>(*known->second);
  }
  if (session.answers.size() >= kMostAnswers)
    return Error::told(Errc::kBusy, "too many lock requests of one session under way");
  return std::optional<wire::LockReply>();
}

Result<wire::LockReply> LockManager::decide(const LockParams& params, const wire::LockRequest& request) {
  const LockOutcome outcome = table_.set(params, request.wait ? request.sequence : 0);
  tell_changes();
  switch (outcome) {
    case LockOutcome::kGranted:
    case LockOutcome::kQueued: return wire::LockReply{outcome == LockOutcome::kQueued, events_.table_number()};
    case LockOutcome::kConflict: return Errc::kTryAgain;
    case LockOutcome::kDeadlock: return Errc::kDeadlock;
    case LockOutcome::kTooMany: break;
  }
  return Errc::kNoLocks;
}

job::Task<Result<wire::LockReply>> LockManager::lock(rpc::Call& call, wire::LockRequest request) {
  SPATE_CO_TRY(const LockParams params, params_of(call, request.lock));
  if (request.sequence == 0 || request.oldest > request.sequence) {
    co_return Error::told(Errc::kInvalidArgument, "a lock request without a sequence");
  }
  if (call.peer->user_key) {
    SPATE_CO_TRY(std::ignore, co_await check_user(call, request.lock));
  }
  for (;;) {
    SPATE_CO_TRY(std::ignore, admit(call));
    SessionLocks& session = session_of(call);
    SPATE_CO_TRY(auto known, earlier_answer(session, request));
    if (known) co_return *known;
    if (request.table != 0 && request.table != events_.table_number()) co_return Errc::kLocksForgotten;
    if (params.mode != LockMode::kNone && in_grace()) {
      co_return Error::told(Errc::kBusy, "the meta server has restarted and waits for the locks that others had");
    }
    if (params.mode == LockMode::kNone || session.recorded) {
      auto reply = decide(params, request);
      session.answers.emplace(request.sequence, reply);
      co_return reply;
    }
    const std::uint32_t epoch = session.epoch;
    SPATE_CO_TRY(std::ignore, co_await markers_.record(call.header.client, epoch, call.stop));
    // The session may have ended or restarted meanwhile, so look everything up again.
    const auto found = sessions_.find(call.header.client);
    if (found != sessions_.end() && found->second.epoch == epoch) found->second.recorded = true;
  }
}

job::Task<Result<wire::LockTestReply>> LockManager::test(rpc::Call& call, wire::LockTestRequest request) {
  SPATE_CO_TRY(std::ignore, admit(call));
  SPATE_CO_TRY(const LockParams params, params_of(call, request.lock));
  if (call.peer->user_key) {
    wire::LockSpec asked = request.lock;
    if (params.mode == LockMode::kNone) asked.mode = LockMode::kShared;  // it tells as much
    SPATE_CO_TRY(std::ignore, co_await check_user(call, asked));
  }
  if (in_grace())
    co_return Error::told(Errc::kBusy, "the meta server has restarted and waits for the locks that others had");
  wire::LockTestReply reply;
  const auto found = table_.test(params);
  if (!found) co_return reply;
  reply.conflict = wire::LockSpec{request.lock.handle, found->owner.kind,       found->owner.token,    found->pid,
                                  found->lock.mode,    found->lock.range.first, found->lock.range.last};
  reply.client = found->owner.client;
  co_return reply;
}

job::Task<Result<wire::LockCancelReply>> LockManager::cancel(rpc::Call& call, wire::LockCancelRequest request) {
  SPATE_CO_TRY(std::ignore, admit(call));
  wire::LockCancelReply reply;
  reply.table = events_.table_number();
  reply.ended = table_.cancel({call.header.client, call.header.session_epoch, request.sequence});
  // Records that the request was cancelled, so that a later copy of it takes no lock.
  SessionLocks& session = session_of(call);
  const bool new_one = request.sequence >= session.floor && session.answers.size() < kMostAnswers;
  if (new_one) session.answers.try_emplace(request.sequence, Errc::kCancelled);
  tell_changes();
  co_return reply;
}

job::Task<Result<wire::LockReclaimReply>> LockManager::reclaim(rpc::Call& call, wire::LockReclaimRequest request) {
  std::set<std::uint32_t> refused;
  if (call.peer->user_key) {
    SPATE_CO_TRY(refused, co_await forbidden(call, request.locks));
  }
  SPATE_CO_TRY(std::ignore, admit(call));
  const ClientId client = call.header.client;
  wire::LockReclaimReply reply;
  reply.table = events_.table_number();
  const auto reclaimed = reclaimed_.find(client);
  if (reclaimed != reclaimed_.end() && reclaimed->second == call.header.session_epoch) co_return reply;  // a resend
  const auto pending = markers_.pending().find(client);
  if (pending == markers_.pending().end() || pending->second != call.header.session_epoch) {
    co_return Error::told(Errc::kLostLock, "it was not claimed in time after the meta server restarted");
  }
  session_of(call).recorded = true;
  for (std::uint32_t i = 0; i < request.locks.size(); ++i) {
    SPATE_CO_TRY(const LockParams params, params_of(call, request.locks[i]));
    if (refused.contains(i) || table_.set(params, 0) != LockOutcome::kGranted) reply.lost.push_back(i);
  }
  if (request.last) claimed_all(client, call.header.session_epoch);
  tell_changes();
  co_return reply;
}

}  // namespace spate::meta
