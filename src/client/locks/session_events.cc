// SPDX-License-Identifier: Apache-2.0
// Events about locks from the meta server, and what happens to locks after the server has restarted.
#include <algorithm>

#include "client/attributes/attribute_cache.h"
#include "client/attributes/copies.h"
#include "client/locks/locks.h"
#include "client/session/session.h"
#include "log/log.h"

namespace spate::client {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(100);
constexpr std::size_t kClaimsInOneRequest = 500;
constexpr std::uint32_t kEventsRoom = 32 * 1024;
/// A reply with this many events may not contain all of them.
constexpr std::size_t kFullOfEvents = 256;

}  // namespace

/// Whether this client needs events: a caller waits for a lock, or another client may want this client's right to
/// append, or may want to change what this client keeps.
bool Locks::wants_events() const {
  if (!waits_.empty() || untold_ || attributes_.wants_events()) return true;
  if (session_.executor().now() < inherited_until_) return true;
  return std::any_of(held_.begin(), held_.end(), [](const auto& file) {
    const auto right = file.second.find({LockKind::kAppend, 0});
    return right != file.second.end() && !right->second.lost;
  });
}

void Locks::start_listening() {
  if (listening_ || !wants_events()) return;
  listening_ = true;
  if (!job::spawn(gate_, listen())) listening_ = false;
}

job::Task<void> Locks::listen() {
  while (wants_events() && !stopping_.stopped()) {
    Duration hold = session_.options().attempt_timeout / 3;
    if (attributes_.wants_events()) hold = std::min(hold, attributes_.longest_silence());
    wire::SessionEventsRequest request;
    request.table = table_;
    request.acknowledged = acknowledged_;
    if (!untold_ || table_ != 0)
      request.hold_ms = static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(hold).count());
    const std::uint32_t epoch = session_.identity().epoch;
    // The cache has dropped everything that this request
    // acknowledges. Copies that others have of it must be gone, too.
    const auto dropped = co_await copies_dropped(session_.options().copies, session_.executor(), stopping_);
    if (!dropped || epoch != session_.identity().epoch) continue;
    const MonoTime asked = session_.executor().now();
    auto reply = co_await session_.ask<wire::SessionEventsReply>(request, session_.limits(stopping_), kEventsRoom);
    check_session();
    // If the epoch has ended in the meantime, its events do not concern the present one.
    const bool current = reply && epoch == session_.identity().epoch;
    std::optional<std::uint64_t> stale;
    if (current) stale = hear(asked, request, *reply);
    const bool more = untold_ || (current && !reply->events.empty());
    if (current && more && !stale && reply->table == table_) continue;
    if (stale) std::ignore = co_await reclaim(*stale);
    if (session_.executor().now() - asked < hold / 2)
      std::ignore = co_await session_.executor().sleep(kPause, stopping_);
    std::vector<std::pair<std::uint64_t, WaitPtr>> abandoned;
    for (const auto& [sequence, wait] : waits_) {
      if (wait->abandoned) abandoned.emplace_back(sequence, wait);
    }
    for (const auto& [sequence, wait] : abandoned) co_await cancel(sequence, wait, stopping_);
  }
  listening_ = false;
}

void Locks::take(const std::vector<wire::SessionEvent>& events) {
  for (const wire::SessionEvent& event : events) {
    if (event.number <= acknowledged_) continue;
    acknowledged_ = event.number;
    switch (event.type) {
      case wire::SessionEventType::kLockGranted: end_wait(event.subject, WaitState::kGranted); break;
      case wire::SessionEventType::kLockRefused: end_wait(event.subject, WaitState::kRefused); break;
      case wire::SessionEventType::kAppendRecalled:
        if (on_recall_) on_recall_(Handle(event.subject));
        break;
      case wire::SessionEventType::kLeaseRecalled:
        attributes_.recalled(Handle(event.subject));
        if (on_lease_recall_) on_lease_recall_(Handle(event.subject));
        untold_ = true;  // another client waits for this one
        break;
    }
  }
  keep_state();
}

/// The server is about to learn that this client knows its present table. By then the client must not keep anything
/// that another process of the server has granted.
void Locks::know_table(std::uint64_t table) {
  if (table == table_) return;
  table_ = table;
  attributes_.server_is(table);
  untold_ = attributes_.on();
  start_listening();
}

/// Returns the old table if the server has restarted since and may wait for this client's claims. 0: all lock requests
/// so far have failed, so it is not known which process answered them. Nothing: no claim is needed.
std::optional<std::uint64_t> Locks::hear(MonoTime asked, const wire::SessionEventsRequest& request,
                                         const wire::SessionEventsReply& reply) {
  const bool knew_table = table_ != 0;
  // A client that has ever locked something must send a claim, even an empty one: the server waits for it.
  if (table_ == 0 || !has_locked_) {
    if (table_ != reply.table) acknowledged_ = 0;
    know_table(reply.table);
  }
  const bool ours = reply.table == table_;
  if (ours) take(reply.events);
  if (!ours) untold_ = attributes_.on();
  if (ours && request.table == table_ && request.acknowledged == acknowledged_) untold_ = false;
  start_listening();
  attributes_.heard(asked, reply.table, ours && reply.events.size() < kFullOfEvents);
  if (knew_table) return ours ? std::nullopt : std::optional(table_);
  const auto held = [](const auto& owner) { return !owner.second.lost; };
  const bool any_held = std::any_of(held_.begin(), held_.end(), [&](const auto& file) {
    return std::any_of(file.second.begin(), file.second.end(), held);
  });
  return has_locked_ && !any_held && under_way_.empty() ? std::optional<std::uint64_t>(0) : std::nullopt;
}

void Locks::heard() {
  const bool same = session_.meta().peer_info().connection == connection_;
  if ((table_ == 0 && !has_locked_) || same || checking_) return;
  checking_ = true;
  if (!job::spawn(gate_, check_table())) checking_ = false;
}

/// Needed also if nothing is held, because the server waits for every session that has ever taken a lock.
job::Task<void> Locks::check_table() {
  const std::uint32_t connection = session_.meta().peer_info().connection;
  wire::SessionEventsRequest request;
  request.table = table_;
  request.acknowledged = acknowledged_;
  const std::uint32_t epoch = session_.identity().epoch;
  const auto dropped = co_await copies_dropped(session_.options().copies, session_.executor(), stopping_);
  if (!dropped) {
    checking_ = false;
    co_return;
  }
  const MonoTime asked = session_.executor().now();
  auto reply = co_await session_.ask<wire::SessionEventsReply>(request, session_.limits(stopping_), kEventsRoom);
  check_session();
  const bool current = reply && epoch == session_.identity().epoch;
  std::optional<std::uint64_t> stale;
  if (current) stale = hear(asked, request, *reply);
  if (stale) {
    std::ignore = co_await reclaim(*stale);
  } else if (current) {
    connection_ = connection;
  }
  checking_ = false;
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

job::Task<Result<void>> Locks::reclaim_all(std::uint64_t stale) {
  give_up_what_is_in_doubt();
  std::vector<wire::LockSpec> all;
  for (const auto& [handle, owners] : held_) {
    for (const auto& [holder, held] : owners) {
      for (const HeldLock& lock : held.ranges.pieces()) {
        if (!held.lost)
          all.push_back({handle, holder.kind, holder.number, held.pid, lock.mode, lock.range.first, lock.range.last});
      }
    }
  }
  const auto mark_lost = [this](const wire::LockSpec& lock) {
    const auto file = held_.find(lock.handle);
    if (file == held_.end()) return;
    const auto held = file->second.find({lock.kind, lock.owner});
    if (held != file->second.end()) held->second.lost = true;
    SPATE_LOG("client", warn, "a lock was lost when the meta server restarted handle={}", lock.handle.value);
  };
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
      std::for_each(all.begin(), all.end(), mark_lost);
      if (table_ == stale) table_ = 0;  // the next reply tells which table it is
      break;
    }
    for (const std::uint32_t i : reply->lost) {
      if (done + i < end) mark_lost(all[done + i]);
    }
    done = end;
    if (done < all.size()) continue;
    know_table(reply->table);
    connection_ = session_.meta().peer_info().connection;
    break;
  }
  acknowledged_ = 0;
  keep_state();
  ask_again();
  co_return Result<void>();
}

}  // namespace spate::client
