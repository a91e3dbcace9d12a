// SPDX-License-Identifier: Apache-2.0
#include "client/locks/locks.h"

#include <algorithm>

#include "client/session/handover_state.h"
#include "client/session/session.h"
#include "job/deadline.h"
#include "log/log.h"
#include "model/defect.h"

namespace spate::client {
namespace {

/// A caller that stops waiting gets its answer within this time, even if the server cannot be reached.
constexpr Duration kCancelTimeout = std::chrono::seconds(2);

bool is_uncertain(Errc code) {
  return code == Errc::kTimeout || code == Errc::kUnreachable || code == Errc::kConnectionLost ||
         code == Errc::kCancelled;
}

wire::LockSpec to_lock(const HandoverState::Held& record) {
  return {record.handle, record.kind, record.owner, record.pid, record.mode, record.first, record.last};
}

}  // namespace

Locks::Locks(Session& session, EventListener& events)
    : session_(session), events_(events), reclaim_done_(session.executor()), gate_(session.executor()) {
  events_.serve(*this);
}
Locks::~Locks() = default;

job::Task<void> Locks::stop() {
  stopping_.request_stop();
  for (const auto& [sequence, wait] : waits_) wait->ended.set();
  co_await gate_.close();
}

std::uint64_t Locks::next_sequence() {
  under_way_.insert(++last_sequence_);
  if (HandoverState* const handover = session_.handover()) {
    HandoverState::LockState state = handover->lock_state();
    state.last_sequence = last_sequence_;
    handover->keep_lock_state(state);
  }
  return last_sequence_;
}

/// The locks of an ended epoch are lost, because they are fenced and may be granted to others.
void Locks::session_changed() {
  held_.lose_all();
  if (held_.files() > 0) SPATE_LOG("client", warn, "locks were lost with the session files={}", held_.files());
  doubts_.forget();
  has_locked_ = false;
  ask_again();
}

/// Records a lock that was answered, or that needs no answer.
void Locks::note(const wire::LockSpec& lock, std::uint64_t sequence) {
  doubts_.settle(lock, sequence);
  held_.set(lock, session_.handover());
}

bool Locks::holds(Handle handle, LockHolder holder) {
  events_.check_session();  // another request may have begun a new session
  const HeldLocks::Held* const held = held_.find(handle, holder);
  if (held == nullptr || held->lost) return false;
  // An earlier process may have given back a right to append just before it ended. Then only the server knows.
  const bool known = holder.kind != LockKind::kAppend || held->pid == 0;
  return known && !doubts_.any(handle, holder);
}

bool Locks::lost(Handle handle) {
  events_.check_session();
  return held_.any_lost(handle);
}

job::Task<Result<wire::LockReply>> Locks::send(const wire::LockSpec& lock, bool wait, std::uint64_t sequence) {
  wire::LockRequest request;
  request.lock = lock;
  request.wait = wait;
  request.sequence = sequence;
  request.oldest = *under_way_.begin();
  request.table = events_.table();
  has_locked_ = true;
  Limits limits = limits_here(stopping_);
  if (planted(Defect::kLateLock)) limits.only_in.reset();
  auto reply = co_await session_.ask(request, limits);
  under_way_.erase(sequence);
  // If the epoch has ended, everything that was granted in it is lost.
  if (limits.only_in && !is_current(*limits.only_in)) co_return Errc::kSessionFenced;
  events_.check_session();
  if (reply) {
    has_locked_ = true;
    events_.answered(reply->table);
  }
  co_return reply;
}

/// A request about held locks is valid only in the epoch that holds them. In another epoch it would take or release
/// locks that this client does not know.
Limits Locks::limits_here(job::StopToken stop) const {
  Limits limits = session_.limits(stop);
  limits.only_in = events_.epoch();
  return limits;
}

bool Locks::is_current(const rpc::SessionEpoch& session) {
  events_.check_session();
  return session == events_.epoch();
}

bool Locks::lost(const wire::LockSpec& lock) const {
  const HeldLocks::Held* const held = held_.find(lock.handle, {lock.kind, lock.owner});
  return held != nullptr && held->lost;
}

job::Task<Result<void>> Locks::set(wire::LockSpec lock, bool wait, job::StopToken stop) {
  SPATE_CO_TRY(std::ignore, co_await session_.ensure_open(session_.limits(stop)));
  for (int sessions = 0; sessions < kMostSessions;) {
    events_.check_session();
    if (lost(lock)) {
      if (lock.mode != LockMode::kNone) co_return Errc::kLostLock;
      note(lock, last_sequence_);  // the server holds none of it any more
      co_return Result<void>();
    }
    if (reclaiming_) {  // a claim names everything that is held, so nothing may be added while it is in flight
      const auto over = co_await reclaim_done_.wait(stop);
      if (!over && reclaiming_) co_return over.error();
      continue;
    }
    const rpc::SessionEpoch session = events_.epoch();
    const std::uint64_t table = events_.table();
    const std::uint64_t sequence = next_sequence();
    doubts_.begin(sequence, lock);
    WaitPtr waiting;
    if (wait) begin_wait(sequence, waiting = std::make_shared<Wait>(lock, session_.executor()));
    auto reply = co_await send(lock, wait, sequence);
    if (reply && !reply->queued) {
      note(lock, sequence);
      forget_wait(sequence);
      if (lock.kind == LockKind::kAppend) events_.start();  // other clients may want the right
      co_return Result<void>();
    }
    if (!reply && is_uncertain(reply.code())) {
      // An event has reported that already.
      if (wait && waiting->state == WaitState::kGranted) co_return Result<void>();
      leave_in_doubt(lock, sequence, waiting);
      co_return std::move(reply).error();
    }
    doubts_.end(sequence);
    if (!reply) {
      forget_wait(sequence);
      const Errc code = reply.code();
      if (session_ended(code)) {
        ++sessions;
        SPATE_CO_TRY(std::ignore, co_await session_.renew(session_.limits(stop), session));
        continue;
      }
      if (code == Errc::kLocksForgotten) {
        const auto reclaimed = co_await reclaim(table);
        if (!reclaimed && !session_ended(reclaimed.code())) co_return reclaimed;
        continue;
      }
      co_return std::move(reply).error();
    }
    waiting->queued = true;
    events_.start();
    auto granted = co_await wait_for(sequence, waiting, stop);
    if (granted.code() != Errc::kLocksForgotten) co_return granted;
  }
  co_return Error(Errc::kSessionFenced, "the session ended several times during the request");
}

/// It is not known whether the request was carried out. Locks that it may have taken are released when the owner closes
/// the file. A lock that it waits for may be granted at any time, and is released then.
void Locks::leave_in_doubt(const wire::LockSpec& lock, std::uint64_t sequence, const WaitPtr& wait) {
  if (wait != nullptr) {
    doubts_.leave(sequence, nullptr);
    wait->abandoned = true;
    events_.start();
  } else {
    HandoverState* const handover = session_.handover();
    if (handover != nullptr) handover->keep_wait(sequence, handover_record(lock, lock.pid));
    doubts_.leave(sequence, handover);
  }
}

/// Waits for a grant. kLocksForgotten: the lock must be requested again.
job::Task<Result<void>> Locks::wait_for(std::uint64_t sequence, WaitPtr wait, job::StopToken stop) {
  if (wait->state == WaitState::kWaiting) {
    const auto woken = co_await wait->ended.wait(stop);
    if (stopping_.stopped() && wait->state == WaitState::kWaiting) co_return Errc::kCancelled;  // the session ends
    if (!woken && wait->state == WaitState::kWaiting) {
      job::DeadlineScope scope(session_.executor(), session_.executor().now() + kCancelTimeout, stopping_);
      co_await cancel(sequence, wait, scope.token());
      if (wait->state == WaitState::kWaiting) std::ignore = co_await wait->ended.wait(scope.token());
      wait->abandoned = wait->state == WaitState::kWaiting;
      if (wait->state != WaitState::kGranted) co_return woken.error();  // otherwise the cancellation came too late
    }
  }
  switch (wait->state) {
    case WaitState::kGranted: co_return Result<void>();
    case WaitState::kRefused: co_return Errc::kNoLocks;
    default: co_return Errc::kLocksForgotten;
  }
}

/// Ends a wait that no caller needs any more. If the server cannot be reached, cancel_abandoned() tries again. If it
/// has granted the lock, the event about that ends the wait.
job::Task<void> Locks::cancel(std::uint64_t sequence, WaitPtr wait, job::StopToken stop) {
  wire::LockCancelRequest request;
  request.sequence = sequence;
  auto reply = co_await session_.ask(request, limits_here(stop));
  events_.check_session();
  if (!reply || wait->state != WaitState::kWaiting) co_return;
  if (reply->ended || (events_.table() != 0 && reply->table != events_.table())) {
    end_wait(sequence, WaitState::kRefused);
  } else if (!wait->queued) {
    end_wait(sequence, WaitState::kGranted);  // granted at once; or the request has not arrived and never will
  }
}

void Locks::end_wait(std::uint64_t sequence, WaitState state) {
  const auto found = waits_.find(sequence);
  if (found == waits_.end()) return;
  const WaitPtr wait = found->second;
  if (state == WaitState::kGranted && !wait->abandoned) note(wait->lock, sequence);
  forget_wait(sequence);
  wait->state = state;
  wait->ended.set();
  if (state == WaitState::kGranted && wait->abandoned) job::spawn(gate_, give_back(wait->lock));
}

/// Undoes a grant that came after its owner had given up: the owner gets back what it held of the range before.
job::Task<void> Locks::give_back(wire::LockSpec lock) {
  LockRanges before;
  if (const HeldLocks::Held* const held = held_.find(lock.handle, {lock.kind, lock.owner})) before = held->ranges;
  std::vector<HeldLock> wanted;
  std::uint64_t next = lock.first;
  for (const HeldLock& piece : before.pieces()) {
    if (!piece.range.overlaps({lock.first, lock.last})) continue;
    const std::uint64_t first = std::max(piece.range.first, lock.first);
    const std::uint64_t last = std::min(piece.range.last, lock.last);
    if (first > next) wanted.push_back({{next, first - 1}, LockMode::kNone});
    wanted.push_back({{first, last}, piece.mode});
    next = last + 1;
  }
  if (next <= lock.last) wanted.push_back({{next, lock.last}, LockMode::kNone});
  for (const HeldLock& piece : wanted) {
    lock.mode = piece.mode;
    lock.first = piece.range.first;
    lock.last = piece.range.last;
    auto given = co_await set(lock, false, stopping_);
    if (!given)
      SPATE_LOG("client", warn, "a lock is not released after its wait was given up error={}", given.error().message());
  }
}

void Locks::begin_wait(std::uint64_t sequence, WaitPtr wait) {
  if (HandoverState* const handover = session_.handover())
    handover->keep_wait(sequence, handover_record(wait->lock, wait->lock.pid));
  waits_.emplace(sequence, std::move(wait));
}

void Locks::forget_wait(std::uint64_t sequence) {
  if (waits_.erase(sequence) > 0 && session_.handover() != nullptr) session_.handover()->end_wait(sequence);
}

/// The server has forgotten all waits, so they are requested again.
void Locks::ask_again() {
  std::vector<std::uint64_t> all;
  for (const auto& [sequence, wait] : waits_) {
    if (!under_way_.contains(sequence)) all.push_back(sequence);  // the others learn it from their replies
  }
  for (const std::uint64_t sequence : all) end_wait(sequence, WaitState::kAskAgain);
}

job::Task<Result<std::optional<wire::LockSpec>>> Locks::test(wire::LockSpec lock) {
  wire::LockTestRequest request;
  request.lock = lock;
  auto reply = co_await session_.ask(request, session_.limits());
  events_.check_session();
  if (!reply) co_return std::move(reply).error();
  co_return reply->conflict;
}

job::Task<Result<void>> Locks::release(Handle handle, LockHolder holder) {
  if (held_.find(handle, holder) == nullptr && !doubts_.any(handle, holder)) co_return Result<void>();
  wire::LockSpec all;
  all.handle = handle;
  all.kind = holder.kind;
  all.owner = holder.number;
  auto released = co_await set(all, false, stopping_);
  co_return released;
}

void Locks::inherit() {
  HandoverState* const handover = session_.handover();
  if (handover == nullptr || !handover->inherited()) return;
  last_sequence_ = handover->lock_state().last_sequence;
  has_locked_ = true;
  for (const HandoverState::Held& piece : handover->held()) held_.inherit(piece);
  for (const HandoverState::Wait& wait : handover->waits())
    inherited_waits_.emplace_back(wait.sequence, to_lock(wait.lock));
}

job::Task<void> Locks::end_inherited_waits() {
  for (const Handle handle : held_.append_rights()) {  // the earlier process may have been asked to give them back
    if (on_recall_) on_recall_(handle);
  }
  std::vector<std::pair<std::uint64_t, wire::LockSpec>> all;
  all.swap(inherited_waits_);
  for (const auto& [sequence, lock] : all) {
    wire::LockCancelRequest request;
    request.sequence = sequence;
    auto reply = co_await session_.ask(request, session_.limits(stopping_));
    events_.check_session();
    if (!reply) {
      SPATE_LOG("client", warn, "a wait for a lock is left over handle={} error={}", lock.handle.value,
                reply.error().message());
      continue;
    }
    if (reply->ended || reply->table != events_.table()) {
      session_.handover()->end_wait(sequence);
      continue;
    }
    // The lock was granted, or may have been. It is released when its owner closes the file.
    doubts_.begin(sequence, lock);
    doubts_.leave(sequence, session_.handover());
    if (lock.kind == LockKind::kAppend && on_recall_) on_recall_(lock.handle);
  }
}

}  // namespace spate::client
