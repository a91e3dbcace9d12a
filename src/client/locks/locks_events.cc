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

bool Locks::want_events() const {
  if (!waits_.empty()) return true;
  return std::any_of(held_.begin(), held_.end(), [](const auto& file) {
    const auto right = file.second.find({LockKind::kAppend, 0});
    return right != file.second.end() && !right->second.lost;
  });
}

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

bool Locks::idle() const {
  const auto held = [](const auto& owner) { return !owner.second.lost; };
  const bool any_held = std::any_of(held_.begin(), held_.end(), [&](const auto& file) {
    return std::any_of(file.second.begin(), file.second.end(), held);
  });
  return !any_held && under_way_.empty();
}

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
  std::vector<wire::LockSpec> all;
  for (const auto& [handle, owners] : held_) {
    for (const auto& [holder, held] : owners) {
      if (held.lost) continue;
      const auto weaker = doubts_.weaker(handle, holder, held.ranges);
      all.insert(all.end(), weaker.begin(), weaker.end());
    }
  }
  for (const wire::LockSpec& lock : all) note(lock, 0);
  doubts_.forget();
}

std::vector<wire::LockSpec> Locks::all_held() const {
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

void Locks::mark_lost(const wire::LockSpec& lock) {
  const auto file = held_.find(lock.handle);
  if (file == held_.end()) return;
  const auto held = file->second.find({lock.kind, lock.owner});
  if (held != file->second.end()) held->second.lost = true;
  SPATE_LOG("client", warn, "a lock was lost when the meta server restarted handle={}", lock.handle.value);
}

job::Task<Result<void>> Locks::reclaim_all(std::uint64_t stale) {
  give_up_what_is_in_doubt();
  const std::vector<wire::LockSpec> all = all_held();
  for (std::size_t done = 0;;) {
    wire::LockReclaimRequest request;
    const std::size_t end = std::min(all.size(), done + kClaimsInOneRequest);
    request.locks.assign(all.begin() + static_cast<std::ptrdiff_t>(done),
                         all.begin() + static_cast<std::ptrdiff_t>(end));
    request.last = end == all.size();
    const Limits limits = limits_here(stopping_);
    auto reply = co_await session_.ask<wire::LockReclaimReply>(request, limits);
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
