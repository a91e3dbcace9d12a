// SPDX-License-Identifier: Apache-2.0
// Locks receives the events of the meta server here. It claims its locks again after the server has restarted.
#include <algorithm>

#include "client/locks/locks.h"
#include "client/session/session.h"
#include "log/log.h"

namespace spate::client {
namespace {

constexpr std::size_t kClaimsInOneRequest = 500;

}  // namespace

bool Locks::want_events() const { return !waits_.empty() || held_.any_append_right(); }

void Locks::take(const wire::SessionEvent& event) {
  switch (event.type) {
    case wire::SessionEventType::kLockGranted: end_wait(event.subject, WaitState::kGranted); break;
    case wire::SessionEventType::kLockRefused: end_wait(event.subject, WaitState::kRefused); break;
    case wire::SessionEventType::kAppendRecalled:
      if (on_recall_) on_recall_(Handle(event.subject));
      break;
    case wire::SessionEventType::kLeaseRecalled: break;  // of no lock
  }
}

bool Locks::idle() const { return !held_.any_valid() && under_way_.empty(); }

job::Task<void> Locks::cancel_abandoned(job::StopToken stop) {
  std::vector<std::pair<std::uint64_t, WaitPtr>> abandoned;
  for (const auto& [sequence, wait] : waits_) {
    if (wait->abandoned) abandoned.emplace_back(sequence, wait);
  }
  for (const auto& [sequence, wait] : abandoned) co_await cancel(sequence, wait, stop);
}

/// Only one claim runs at a time. Calls that come in the meantime share its result.
job::Task<Result<void>> Locks::reclaim(std::uint64_t stale) {
  if (!reclaiming_) {
    reclaiming_ = true;
    reclaim_done_.reset();
    reclaimed_ = co_await reclaim_all(stale);
    reclaiming_ = false;
    reclaim_done_.set();
    co_return reclaimed_;
  }
  std::ignore = co_await reclaim_done_.wait();
  co_return reclaimed_;
}

/// The earlier server process may have granted a request without an answer. It may then have granted other clients the
/// same bytes. Only those other clients claim the bytes.
void Locks::give_up_what_is_in_doubt() {
  for (const wire::LockSpec& lock : held_.weaker(doubts_)) note(lock, 0);
  doubts_.forget();
}

void Locks::mark_lost(const wire::LockSpec& lock) {
  if (!held_.lose(lock.handle, {lock.kind, lock.owner})) return;
  SPATE_LOG("client", warn, "a lock was lost when the meta server restarted handle={}", lock.handle.value);
}

job::Task<Result<void>> Locks::reclaim_all(std::uint64_t stale) {
  give_up_what_is_in_doubt();
  const std::vector<wire::LockSpec> all = held_.all_valid();
  for (std::size_t done = 0;;) {
    wire::LockReclaimRequest request;
    const std::size_t end = std::min(all.size(), done + kClaimsInOneRequest);
    request.locks.assign(all.begin() + static_cast<std::ptrdiff_t>(done),
                         all.begin() + static_cast<std::ptrdiff_t>(end));
    request.last = end == all.size();
    const Limits limits = limits_here(stopping_);
    auto reply = co_await session_.ask(request, limits);
    if (!is_current(*limits.only_in)) co_return Result<void>();  // in another session there is nothing to claim
    if (!reply && reply.code() != Errc::kLostLock) co_return std::move(reply).error();
    if (!reply) {
      for (const wire::LockSpec& lock : all) mark_lost(lock);
      events_.claim_refused(stale);
      break;
    }
    for (const std::uint32_t i : reply->lost) {
      if (done + i < end) mark_lost(all[done + i]);
    }
    done = end;
    if (done < all.size()) continue;
    events_.answered(reply->table);
    break;
  }
  ask_again();
  co_return Result<void>();
}

}  // namespace spate::client
