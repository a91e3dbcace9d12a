// SPDX-License-Identifier: Apache-2.0
// The end of sessions, by request or by silence: first they are fenced, then what they held is released.
#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/meta/session/session_events.h"
#include "server/meta/session/sessions.h"

namespace spate::meta {
namespace {

job::Task<Result<void>> put_session(Operation& operation, const SessionRecord& record) {
  operation.put(session_key(record.client), record);
  co_return {};
}

job::Task<Result<void>> erase_session(Operation& operation, ClientId client) {
  operation.erase(session_key(client));
  operation.erase(queue_key(client));
  co_return {};
}

constexpr Duration kFirstFenceBackoff = std::chrono::milliseconds(100);
constexpr Duration kLongestFenceBackoff = std::chrono::seconds(5);

}  // namespace

job::Task<void> SessionTable::watch_leases() {
  const Duration period = std::max<Duration>(core_.options().session_lease / 8, std::chrono::milliseconds(10));
  while (!stopping_.stopped()) {
    end_silent_ones();
    const MonoTime before = core_.executor().now();
    std::ignore = co_await core_.executor().sleep(period, stopping_);
    // A server that was stopped or swapped out has received no requests meanwhile. That does not mean that its clients
    // were silent.
    const Duration late = core_.executor().now() - before - period;
    if (late > period) prolong_all(late);
  }
}

void SessionTable::prolong_all(Duration by) {
  for (const auto& [client, session] : sessions_) session->last_heard = session->last_heard + by;
  if (const auto more = log_limit_.admit()) {
    SPATE_LOG("server/meta", warn, "this server stood still, every session lives on by that much ms={}{}",
              std::chrono::duration_cast<std::chrono::milliseconds>(by).count(), *more);
  }
}

void SessionTable::end_silent_ones() {
  const MonoTime now = core_.executor().now();
  std::vector<SessionPtr> silent;
  for (const auto& [client, session] : sessions_) {
    if (session->open() && now - session->last_heard > core_.options().session_lease) silent.push_back(session);
  }
  const auto by_client = [](const SessionPtr& a, const SessionPtr& b) { return a->record.client < b->record.client; };
  std::sort(silent.begin(), silent.end(), by_client);
  for (const SessionPtr& session : silent) expire(session, "nothing heard for its lease");
  for (const SessionPtr& session : to_be_forgotten()) {
    set_state(*session, SessionState::kEnding);
    session->unsaved = true;
    begin_release(session);
  }
}

void SessionTable::end_epoch(ClientId client, std::string_view why) {
  const SessionPtr session = find(client);
  if (session != nullptr && session->open()) expire(session, why);
}

void SessionTable::end_sessions_of(const KeyId& key) {
  std::vector<SessionPtr> all;
  for (const auto& [client, session] : sessions_) {
    if (session->open() && session->record.user_key == key) all.push_back(session);
  }
  std::ranges::sort(all, {}, [](const SessionPtr& session) { return session->record.client; });
  for (const SessionPtr& session : all) expire(session, "its key was revoked");
}

void SessionTable::expire(const SessionPtr& session, std::string_view why) {
  // From here on its requests are refused. release() stores the new state before it does anything else.
  set_state(*session, SessionState::kExpired);
  ++session->record.epoch;
  session->record.ended = core_.clock().wall();
  session->unsaved = true;
  if (const auto more = log_limit_.admit()) {
    SPATE_LOG("server/meta", warn, "session expired, {} client={} description={}{}", why, session->record.client.value,
              log::Quoted{session->record.description}, *more);
  }
  begin_release(session);
}

/// Sessions that expired so long ago that no ticket is valid any more. If there are too many sessions, also those that
/// expired first.
std::vector<SessionTable::SessionPtr> SessionTable::to_be_forgotten() const {
  const std::int64_t wall = core_.clock().wall().ns;
  std::vector<SessionPtr> expired;
  for (const auto& [client, session] : sessions_) {
    if (session->record.state == SessionState::kExpired && !session->releasing) expired.push_back(session);
  }
  std::sort(expired.begin(), expired.end(), [](const SessionPtr& a, const SessionPtr& b) {
    return std::pair(a->record.ended, a->record.client) < std::pair(b->record.ended, b->record.client);
  });
  const std::size_t most = core_.options().max_sessions;
  const std::size_t crowd = sessions_.size() > most - most / 4 ? sessions_.size() - most / 2 : 0;
  std::size_t n = std::min(crowd, expired.size());
  while (n < expired.size() && wall - expired[n]->record.ended.ns > kTicketLife.count()) ++n;
  expired.resize(n);
  return expired;
}

/// Stores the session's record from memory. The caller holds the session's turn.
job::Task<Result<void>> SessionTable::save(Session& session, trove::Durability durability) {
  session.unsaved = false;  // a later change sets it again
  InternalChange change = [&session](Operation& operation) { return put_session(operation, session.record); };
  auto stored = co_await core_.run_internal(std::move(change), durability, {});
  if (!stored) session.unsaved = true;
  co_return stored;
}

job::Task<Result<wire::EndSessionReply>> SessionTable::end(rpc::Call& call, wire::EndSessionRequest /*request*/) {
  SPATE_CO_TRY(std::ignore, admit(call));
  const SessionPtr session = find(call.header.client);
  if (session == nullptr) co_return Error::told(Errc::kInvalidArgument, "servers have no session to be ended");
  SPATE_CO_TRY(const job::Semaphore::Units turn, co_await session->turn.acquire(1, call.stop));
  SPATE_CO_TRY(std::ignore, admit(call));  // may have changed
  set_state(*session, SessionState::kEnding);
  // Without opens there is nothing to fence: io servers need not refuse the epoch.
  const bool holds = opens_.holds_any(session->record.client);
  if (holds) ++session->record.epoch;
  const auto stored = co_await save(*session, trove::Durability::kProcess);
  begin_release(session);
  if (!stored) co_return stored.error();
  co_return wire::EndSessionReply{};
}

void SessionTable::begin_release(const SessionPtr& session) {
  const SessionRecord& record = session->record;
  const bool needed = record.state == SessionState::kEnding || record.released_epoch < record.epoch || session->unsaved;
  if (!needed || session->releasing) return;
  session->releasing = true;
  if (!job::spawn(gate_, release(session))) session->releasing = false;
}

job::Task<void> SessionTable::release(SessionPtr session) {
  Duration backoff = kFirstFenceBackoff;
  while (!stopping_.stopped()) {
    const bool over = session->record.state != SessionState::kEnding &&
                      session->record.released_epoch == session->record.epoch && !session->unsaved;
    if (over || !sessions_.contains(session->record.client)) break;
    const auto done = co_await release_once(*session);
    if (done) continue;
    if (const auto more = log_limit_.admit()) {
      SPATE_LOG("server/meta", warn,
                "the locks and opens of an ended session are not released yet client={} error={}{}",
                session->record.client.value, done.error().message(), *more);
    }
    std::ignore = co_await core_.executor().sleep(backoff, stopping_);
    backoff = std::min(backoff * 2, kLongestFenceBackoff);
  }
  session->releasing = false;
}

job::Task<Result<void>> SessionTable::release_once(Session& session) {
  SPATE_CO_TRY(const job::Semaphore::Units units, co_await releases_.acquire(1, stopping_));
  const ClientId client = session.record.client;
  if (session.unsaved) {
    SPATE_CO_TRY(const job::Semaphore::Units turn, co_await session.turn.acquire(1, stopping_));
    SPATE_CO_TRY(std::ignore, co_await save(session, trove::Durability::kProcess));
  }
  const std::uint32_t epoch = session.record.epoch;
  if (session.record.released_epoch != epoch) {
    // Must be durable before the fence: a crash could bring back an epoch that the io servers refuse for ever.
    SPATE_CO_TRY(std::ignore, co_await core_.sync());
    // No await between this and the fence, so that a server that joins from now on gets this fence with its list.
    session.fence_begun = epoch;
    // This wait cannot be skipped: an io server that has not confirmed may still accept the session's writes.
    SPATE_CO_TRY(std::ignore, co_await core_.parts().io->fence(client, epoch, stopping_));
    SPATE_CO_TRY(std::ignore, co_await opens_.release(client, epoch, stopping_));
    SPATE_CO_TRY(std::ignore, co_await release_locks(client, epoch));
    SPATE_CO_TRY(const job::Semaphore::Units turn, co_await session.turn.acquire(1, stopping_));
    session.record.released_epoch = epoch;
    SPATE_CO_TRY(std::ignore, co_await save(session, trove::Durability::kProcess));
  }
  if (session.record.state != SessionState::kEnding || session.record.epoch != epoch) co_return {};
  auto erased = co_await erase(session);
  co_return erased;
}

job::Task<Result<void>> SessionTable::release_locks(ClientId client, std::uint32_t below_epoch) {
  SessionHoldings* const locks = core_.parts().locks;
  if (locks == nullptr) co_return {};
  // If they were carried out later, they would cut data of the next holders of the locks.
  if (!planted(Defect::kCutAfterRelease)) {
    SPATE_CO_TRY(std::ignore, co_await core_.parts().intent_recovery->truncated_for(client, below_epoch, stopping_));
  }
  if (Leases* const leases = core_.parts().leases) {
    SPATE_CO_TRY(std::ignore, co_await leases->release(client, below_epoch, stopping_));
  }
  if (SessionEvents* const events = core_.parts().events) events->end(client, below_epoch);
  auto released = co_await locks->release(client, below_epoch, stopping_);
  co_return released;
}

job::Task<Result<void>> SessionTable::erase(Session& session) {
  const ClientId client = session.record.client;
  // A session that ended with nothing open was not fenced. It cannot write under these locks any more.
  SPATE_CO_TRY(std::ignore, co_await release_locks(client, UINT32_MAX));
  SPATE_CO_TRY(std::ignore, co_await answers_.forget(client, stopping_));
  InternalChange change = [client](Operation& operation) { return erase_session(operation, client); };
  SPATE_CO_TRY(std::ignore, co_await core_.run_internal(std::move(change), trove::Durability::kProcess, stopping_));
  sessions_.erase(client);
  core_.queues().forget(client);
  co_return {};
}

}  // namespace spate::meta
