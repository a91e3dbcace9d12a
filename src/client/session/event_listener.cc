// SPDX-License-Identifier: Apache-2.0
#include "client/session/event_listener.h"

#include <algorithm>

#include "client/attributes/attribute_cache.h"
#include "client/attributes/copies.h"
#include "client/session/handover_state.h"
#include "client/session/session.h"

namespace spate::client {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(100);
/// How long other events wait for gathered writes that a recall concerns. Then only this recall waits on.
constexpr Duration kMostForGathered = std::chrono::seconds(2);
constexpr std::uint32_t kEventsRoom = 32 * 1024;
/// A reply with this many events may not contain all of them.
constexpr std::size_t kFullOfEvents = 256;

}  // namespace

EventListener::EventListener(Session& session, AttributeCache& attributes, SessionWrites& writes,
                             SessionChanges& changes)
    : session_(session), attributes_(attributes), writes_(writes), changes_(changes), gate_(session.executor()) {}

job::Task<void> EventListener::stop() { co_await gate_.close(); }

void EventListener::inherit() {
  HandoverState* const handover = session_.handover();
  if (handover == nullptr || !handover->inherited()) return;
  epoch_ = session_.identity().session();
  const HandoverState::LockState state = handover->lock_state();
  table_ = state.table;
  acknowledged_ = state.acknowledged;
  untold_ = attributes_.on();  // this process keeps nothing of what was recalled from the earlier one
}

void EventListener::listen_for_inherited_leases() {
  // No lease lasts longer than an attempt: see LeaseManager::lease().
  if (attributes_.on()) inherited_until_ = session_.executor().now() + session_.options().attempt_timeout;
  start();
}

void EventListener::keep_state() {
  HandoverState* const handover = session_.handover();
  if (handover == nullptr) return;
  HandoverState::LockState state = handover->lock_state();
  state.table = table_;
  state.acknowledged = acknowledged_;
  handover->keep_lock_state(state);
}

void EventListener::check_session() {
  const rpc::SessionEpoch present = session_.identity().session();
  if (present == epoch_) return;
  if (epoch_.client) attributes_.clear();  // no client id: this is the first session
  epoch_ = present;
  table_ = settled_table_ = 0;
  acknowledged_ = settled_ = 0;
  keep_state();
  locks_->session_changed();
  changes_.session_changed();
}

/// The locks want events, or another client may want to change what this client keeps.
bool EventListener::wants_events() const {
  return untold_ || locks_->want_events() || attributes_.wants_events() || writes_.any() || changes_.on() ||
         session_.executor().now() < inherited_until_;
}

void EventListener::start() {
  if (listening_ || !wants_events()) return;
  listening_ = true;
  if (!job::spawn(gate_, listen())) listening_ = false;
}

job::Task<void> EventListener::listen() {
  while (wants_events() && !stopping_.stopped()) {
    Duration hold = session_.options().attempt_timeout / 3;
    if (attributes_.wants_events()) hold = std::min(hold, attributes_.longest_silence());
    const Duration longest = untold_ && table_ == 0 ? Duration::zero() : hold;
    const Fetched fetched = co_await fetch(longest);
    if (!fetched.sent) continue;
    const bool more = untold_ || fetched.events;
    if (fetched.current && more && !fetched.stale && fetched.table == table_) continue;
    if (fetched.stale) std::ignore = co_await locks_->reclaim(*fetched.stale);
    if (session_.executor().now() - fetched.asked < hold / 2)
      std::ignore = co_await session_.executor().sleep(kPause, stopping_);
    co_await locks_->cancel_abandoned(stopping_);
  }
  listening_ = false;
}

void EventListener::heard() {
  const bool same = connection_now() == connection_;
  if ((table_ == 0 && !locks_->must_claim()) || same || checking_) return;
  checking_ = true;
  if (!job::spawn(gate_, check_table())) checking_ = false;
}

/// Needed also if nothing is held, because the server waits for every session that has ever taken a lock.
job::Task<void> EventListener::check_table() {
  const std::uint32_t connection = connection_now();
  const Fetched fetched = co_await fetch(Duration::zero());
  if (fetched.stale) {
    std::ignore = co_await locks_->reclaim(*fetched.stale);
  } else if (fetched.current) {
    connection_ = connection;
  }
  checking_ = false;
}

/// The request acknowledges all events so far for which nothing gathered is left.
job::Task<wire::SessionEventsRequest> EventListener::next_request() {
  wire::SessionEventsRequest request;
  request.table = table_;
  request.acknowledged = acknowledged_;
  bool settled = request.table == settled_table_ && request.acknowledged == settled_;
  // Names first: they ask no io server.
  if (!settled) settled = co_await changes_.send_all_within(kMostForGathered);
  if (settled) settled = co_await writes_.send_revoked(kMostForGathered);
  if (settled) {
    settled_table_ = request.table;
    settled_ = request.acknowledged;
  } else {
    const bool same = settled_table_ == request.table;
    request.table = settled_table_;
    request.acknowledged = same ? settled_ : 0;
  }
  co_return request;
}

/// Acknowledges what can be, and waits up to `hold` for the next. Sends nothing if this object is stopped before,
/// or if the session's epoch ends.
job::Task<EventListener::Fetched> EventListener::fetch(Duration hold) {
  Fetched fetched;
  const std::uint32_t epoch = session_.identity().epoch;
  auto request = co_await next_request();
  request.hold_ms = static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(hold).count());
  // The cache has dropped everything that this request acknowledges. Copies that others have of it must be gone, too.
  const auto dropped = co_await copies_dropped(session_.options().copies, session_.executor(), stopping_);
  if (!dropped || epoch != session_.identity().epoch) co_return fetched;
  fetched.sent = true;
  fetched.asked = session_.executor().now();
  auto reply = co_await session_.ask(request, session_.limits(stopping_), kEventsRoom);
  check_session();
  // If the epoch has ended in the meantime, its events do not concern the present one.
  fetched.current = reply && epoch == session_.identity().epoch;
  if (!fetched.current) co_return fetched;
  fetched.table = reply->table;
  fetched.events = !reply->events.empty();
  fetched.stale = hear(fetched.asked, request, *reply);
  co_return fetched;
}

/// Returns the old table if the server has restarted since and may wait for this client's claims. 0: all lock requests
/// so far have failed, so it is not known which process answered them. Nothing: no claim is needed.
std::optional<std::uint64_t> EventListener::hear(MonoTime asked, const wire::SessionEventsRequest& request,
                                                 const wire::SessionEventsReply& reply) {
  const bool knew_table = table_ != 0;
  // A client that has ever locked something must send a claim, even an empty one: the server waits for it.
  if (table_ == 0 || !locks_->must_claim()) know_table(reply.table);
  const bool ours = reply.table == table_;
  if (ours) take(reply.events);
  if (!ours) untold_ = attributes_.on();
  if (ours && request.table == table_ && request.acknowledged == acknowledged_) untold_ = false;
  start();
  attributes_.heard(asked, reply.table, ours && reply.events.size() < kFullOfEvents);
  if (knew_table) return ours ? std::nullopt : std::optional(table_);
  return locks_->must_claim() && locks_->idle() ? std::optional<std::uint64_t>(0) : std::nullopt;
}

void EventListener::take(const std::vector<wire::SessionEvent>& events) {
  for (const wire::SessionEvent& event : events) {
    if (event.number <= acknowledged_) continue;
    acknowledged_ = event.number;
    if (event.type != wire::SessionEventType::kLeaseRecalled) {
      locks_->take(event);
      continue;
    }
    attributes_.recalled(Handle(event.subject));
    if (on_lease_recall_) on_lease_recall_(Handle(event.subject));
    untold_ = true;  // another client waits for this one
  }
  keep_state();
}

/// The server is about to learn that this client knows its present table. By then the client must not keep anything
/// that another process of the server has granted.
void EventListener::know_table(std::uint64_t table) {
  if (table == table_) return;
  table_ = table;
  acknowledged_ = 0;  // it counted the events of the other process
  attributes_.server_is(table);
  untold_ = attributes_.on();
  start();
}

void EventListener::answered(std::uint64_t table) {
  know_table(table);
  connection_ = connection_now();
  keep_state();
}

void EventListener::claim_refused(std::uint64_t stale) {
  if (table_ == stale) table_ = acknowledged_ = 0;
  keep_state();
}

std::uint32_t EventListener::connection_now() const { return session_.meta().peer_info().connection; }

}  // namespace spate::client
