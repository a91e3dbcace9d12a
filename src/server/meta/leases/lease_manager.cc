// SPDX-License-Identifier: Apache-2.0
#include "server/meta/leases/lease_manager.h"

#include <algorithm>

#include "job/deadline.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/meta/core/reply.h"
#include "server/meta/core/walk.h"
#include "server/meta/names/operations.h"
#include "server/meta/names/sizes.h"

namespace spate::meta {
namespace {

/// A longer walk gets no leases, since this part of the reply is reserved for the object.
constexpr std::size_t kMostSteps = 100;
constexpr std::size_t kMostNameBytes = 8 * 1024;

/// Takes a stamp before an operation reads. Leases on what it reads are granted only if nothing has changed since.
class Reading {
 public:
  explicit Reading(LeaseTable& table) : table_(table), stamp_(table.begin_read()) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() { table_.end_read(); }
  LeaseTable::Stamp stamp() const { return stamp_; }

 private:
  LeaseTable& table_;
  const LeaseTable::Stamp stamp_;
};

/// Whether the walk ended at a name that does not exist, and not for another reason.
bool ends_at_no_name(const std::vector<wire::LeaseStep>& steps) { return !steps.empty() && !steps.back().object; }

bool steps_fit(const std::vector<wire::LeaseStep>& steps) {
  std::size_t bytes = 0;
  for (const wire::LeaseStep& step : steps) bytes += step.name.size();
  return steps.size() <= kMostSteps && bytes <= kMostNameBytes;
}

std::vector<Handle> objects_of(const wire::LookupLeaseReply& reply) {
  std::vector<Handle> objects;
  for (const wire::LeaseStep& step : reply.steps) objects.push_back(step.directory);
  if (reply.object) objects.push_back(reply.object->attributes.handle);
  std::sort(objects.begin(), objects.end());
  objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
  return objects;
}

/// Whether the operation may be a copy of a request that its client no longer waits for.
bool is_late(const Operation& operation, const LeaseTable::Lease& lease) {
  const bool queued = operation.call().header.op == wire::Op::kQueuedChanges;
  return !queued && operation.incarnation() < lease.holder.incarnation;
}

LeaseHolder holder_of(const Operation& operation) {
  const wire::RequestHeader& header = operation.call().header;
  return {header.client, header.session_epoch, operation.incarnation()};
}

}  // namespace

LeaseManager::LeaseManager(MetaCore& core, SessionEvents& events, metrics::Registry& metrics, LeaseLimits limits)
    : core_(core),
      events_(events),
      markers_(core, {"lease", &lease_holder_key, &lease_holders, &parse_lease_holder_key}),
      delegators_(core, {"delegation", &delegation_holder_key, &delegation_holders, &parse_delegation_holder_key}),
      table_(limits),
      answered_(core.executor()),
      granted_(metrics, "spate_server_meta_leases_granted_total"),
      recalls_(metrics, "spate_server_meta_leases_recalled_total"),
      given_back_(metrics, "spate_server_meta_leases_given_back_total"),
      run_out_(metrics, "spate_server_meta_leases_run_out_total"),
      held_(metrics, "spate_server_meta_leases_held"),
      waits_(metrics, "spate_server_meta_lease_wait_ns") {}

/// A quarter of the session's lease. A session that renews its leases this often cannot have expired, and a change that
/// waits this long is still answered within one attempt (10 s).
Duration LeaseManager::lease() const { return core_.options().session_lease / 4; }

std::uint32_t LeaseManager::lease_ms() const {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(lease()).count());
}

job::Task<Result<void>> LeaseManager::start() {
  grace_end_ = core_.executor().now() + lease();
  patience_end_ = core_.executor().now() + core_.options().session_lease;
  SPATE_CO_TRY(std::ignore, co_await markers_.load());
  SPATE_CO_TRY(std::ignore, co_await delegators_.load());
  const std::size_t sessions = markers_.pending().size();
  if (sessions > 0) {
    SPATE_LOG("server/meta", info, "changes wait for clients to drop what they keep sessions={}", sessions);
  }
  co_return {};
}

/// Whether another session may have leases from the process before. They expire one lease time after the restart, since
/// nobody has renewed them. Queued changes do not wait: nobody else has leases on what is delegated, and two sessions
/// would wait for each other, since each sends what it has queued before it tells that it knows of the restart.
bool LeaseManager::is_in_grace(const Operation& operation) {
  auto& pending = markers_.pending();
  if (!pending.empty() && core_.executor().now() >= grace_end_) pending.clear();
  const rpc::Call& call = operation.call();
  return call.header.op != wire::Op::kQueuedChanges && pending.size() > pending.count(call.header.client);
}

void LeaseManager::tell_waiting() {
  answered_.set();
  answered_.reset();
}

void LeaseManager::heard(ClientId client, std::uint32_t epoch, bool knows_table) {
  if (knows_table) {
    const std::size_t known = markers_.pending().erase(client) + delegators_.pending().erase(client);
    if (known > 0) tell_waiting();
  }
  const auto session = sessions_.find(client);
  if (session != sessions_.end() && session->second.epoch == epoch) session->second.heard = core_.executor().now();
}

void LeaseManager::acknowledged(ClientId client, std::uint32_t epoch, const wire::SessionEvent& event) {
  const Handle object(event.subject);
  const auto* leases = table_.of(object);
  if (leases == nullptr) return;
  const auto lease = leases->find(client);
  if (lease == leases->end() || !lease->second.recalled || lease->second.holder.epoch != epoch) return;
  // A late acknowledgment, of an earlier lease that had expired.
  if (lease->second.recall_event != event.number) return;
  table_.drop(object, client);
  given_back_.add();
  tell_held();
  tell_waiting();
}

void LeaseManager::end_change(Handle object, bool removed) {
  table_.end_change(object);
  if (removed) table_.drop_object(object);
  tell_held();
}

job::Task<Result<void>> LeaseManager::release(ClientId client, std::uint32_t below_epoch, job::StopToken stop) {
  const auto session = sessions_.find(client);
  if (session != sessions_.end() && session->second.epoch < below_epoch) sessions_.erase(session);
  table_.drop_session(client, below_epoch);
  markers_.forget(client, below_epoch);
  delegators_.forget(client, below_epoch);
  tell_held();
  tell_waiting();
  SPATE_CO_TRY(std::ignore, co_await delegators_.remove(client, below_epoch, stop));
  auto done = co_await markers_.remove(client, below_epoch, stop);
  co_return done;
}

/// False: this caller gets no leases, or none yet.
job::Task<Result<bool>> LeaseManager::prepare(const rpc::Call& call) {
  const ClientId client = call.header.client;
  const std::uint32_t epoch = call.header.session_epoch;
  if (call.peer->kind == wire::PeerKind::kServer || !events_.listen(call)) co_return false;
  any_gathers_ = any_gathers_ || (call.peer->features & wire::kFeatureGathers) != 0;
  SessionLeases& session = sessions_[client];
  if (session.epoch < epoch) {
    table_.drop_session(client, epoch);
    tell_held();
    session = SessionLeases{epoch, false, false, {}};
  }
  if (session.epoch > epoch) co_return false;  // a late copy
  if (session.recorded) co_return true;
  const bool delegates = (call.peer->features & wire::kFeatureDelegates) != 0;
  SPATE_CO_TRY(std::ignore, co_await markers_.record(client, epoch, call.stop));
  if (delegates) {
    SPATE_CO_TRY(std::ignore, co_await delegators_.record(client, epoch, call.stop));
  }
  const auto found = sessions_.find(client);  // may have changed
  if (found == sessions_.end() || found->second.epoch != epoch) co_return false;
  found->second.recorded = true;
  found->second.delegates = delegates;
  co_return true;
}

job::Task<Result<wire::LookupLeaseReply>> LeaseManager::look_up(Operation& operation,
                                                                const wire::LookupLeaseRequest& request) {
  SPATE_CO_TRY(bool grants, co_await prepare(operation.call()));
  operation.see_the_latest();
  const Reading reading(table_);
  wire::LookupLeaseReply reply;
  reply.lease_ms = lease_ms();
  operation.keep_trail(&reply.steps);
  auto object = co_await walk(operation, request.where, Reach::kOnTheWay);
  operation.keep_trail(nullptr);
  if (object) {
    const bool unsteady = co_await show_as_it_is(operation, *object);
    grants = grants && !unsteady;
    reply.object = object_reply(*object);
  } else if (object.code() != Errc::kNotFound || !ends_at_no_name(reply.steps)) {
    co_return std::move(object).error();
  }
  if (!steps_fit(reply.steps)) {
    if (!reply.object) co_return Errc::kNotFound;
    reply.steps.clear();
    co_return reply;
  }
  if (!grants || !may_be_granted(operation)) co_return reply;
  const LeaseHolder holder = holder_of(operation);
  reply.granted = table_.grant(objects_of(reply), holder, reading.stamp());
  reply.table = events_.table_number();
  if (reply.granted) note_granted(holder);
  recall_surplus();
  co_return reply;
}

/// Whether the caller's session has neither ended nor begun a new epoch since prepare().
bool LeaseManager::may_be_granted(const Operation& operation) const {
  if (!core_.parts().sessions->admit(operation.call())) return false;
  const LeaseHolder holder = holder_of(operation);
  const auto session = sessions_.find(holder.client);
  return session != sessions_.end() && session->second.epoch == holder.epoch;
}

void LeaseManager::note_granted(const LeaseHolder& holder) {
  sessions_[holder.client].heard = core_.executor().now();
  granted_.add();
}

/// Grants each lease by itself: in a large directory, something is always being changed.
void LeaseManager::grant_listed(wire::ListLeaseReply& reply, Handle directory, const LeaseHolder& holder,
                                LeaseTable::Stamp stamp) {
  const std::vector<wire::DirectoryEntry>& entries = reply.page.entries;
  // A client that may not look up names must not cache them either.
  if (entries.empty() || !entries.front().attributes || !table_.grant(directory, holder, stamp)) return;
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    // An entry without attributes leads to an object that the client may not use.
    if (!entries[i].attributes || !table_.grant(entries[i].handle, holder, stamp)) reply.refused.push_back(i);
  }
  reply.granted = true;
  note_granted(holder);
}

job::Task<Result<wire::ListLeaseReply>> LeaseManager::list(Operation& operation,
                                                           const wire::ListLeaseRequest& request) {
  SPATE_CO_TRY(const bool grants, co_await prepare(operation.call()));
  operation.see_the_latest();
  const Reading reading(table_);
  auto reply = co_await list_objects(operation, request);
  if (!reply || !grants || !may_be_granted(operation)) co_return reply;
  reply->lease_ms = lease_ms();
  reply->table = events_.table_number();
  grant_listed(*reply, request.handle, holder_of(operation), reading.stamp());
  recall_surplus();
  co_return reply;
}

/// Whether the client has asked for leases before, listens to recalls, and its session has not ended meanwhile.
bool LeaseManager::may_keep(const Operation& operation) const {
  const rpc::Call& call = operation.call();
  const LeaseHolder holder = holder_of(operation);
  const auto session = sessions_.find(holder.client);
  if (session == sessions_.end() || session->second.epoch != holder.epoch || !session->second.recorded) return false;
  return events_.listen(call) && core_.parts().sessions->admit(call);
}

/// A client may gather writes of a file that it makes, until nobody writes the file any more.
void LeaseManager::note_gathering(const Operation& operation) {
  const rpc::Call& call = operation.call();
  if ((call.peer->features & wire::kFeatureGathers) == 0) return;
  const bool makes = call.header.op == wire::Op::kCreate || call.header.op == wire::Op::kChangeBatch ||
                     call.header.op == wire::Op::kQueuedChanges;
  for (const wire::GrantedObject& object : operation.changes().written().objects) {
    const Handle file = object.object.attributes.handle;
    const bool written = operation.changes().leaves_open_for_writing(file);
    if (makes || !written) table_.set_gathers(file, call.header.client, written);
  }
}

wire::Granted LeaseManager::keep_changed(Operation& operation) {
  wire::Granted out = grant_changed(operation);
  note_gathering(operation);
  delegate(operation, out);
  return out;
}

wire::Granted LeaseManager::grant_changed(Operation& operation) {
  wire::Granted out;
  const wire::Granted& written = operation.changes().written();
  if (written.objects.empty() || !may_keep(operation)) return out;
  const LeaseHolder holder = holder_of(operation);
  for (const wire::GrantedObject& object : written.objects) {
    const Handle handle = object.object.attributes.handle;
    if (!operation.changes().removes(handle) && table_.grant_changed(handle, holder)) out.objects.push_back(object);
  }
  recall_surplus();
  if (out.objects.empty()) return out;
  for (const wire::LeaseStep& name : written.names) {
    const auto is_it = [&](const wire::GrantedObject& one) { return one.object.attributes.handle == name.directory; };
    if (std::any_of(out.objects.begin(), out.objects.end(), is_it)) out.names.push_back(name);
  }
  out.granted = true;
  out.table = events_.table_number();
  out.lease_ms = lease_ms();
  out.order = table_.next_order();
  note_granted(holder);
  return out;
}

void LeaseManager::recall_one(Handle object, ClientId client, LeaseTable::Lease& lease) {
  if (lease.recalled) return;
  lease.recalled = true;
  lease.until = core_.executor().now() + this->lease();
  recalls_.add();
  lease.recall_event = events_.tell(client, lease.holder.epoch, wire::SessionEventType::kLeaseRecalled, object.value);
}

void LeaseManager::recall_surplus() {
  for (const auto& [object, client] : table_.take_surplus()) {
    auto* const leases = table_.of(object);
    if (leases == nullptr || !leases->contains(client)) continue;
    LeaseTable::Lease& lease = leases->at(client);
    // No change waits for these leases, so a lease whose recall is never acknowledged is dropped when it has expired.
    if (lease.recalled && lease.until <= core_.executor().now() && !lease.gathers && !lease.delegated) {
      table_.drop(object, client);
    } else {
      recall_one(object, client, lease);
    }
  }
  tell_held();
}

/// A lease under which writes may be gathered does not end by time as long as its holder asks for events: it gives the
/// lease back when it has sent them. Twice the lease of a session is longer than a silent session lives.
void LeaseManager::look_at_holders(const Operation& operation, Handle object, bool only_gathering, Wait& wait) {
  const LeaseHolder own = holder_of(operation);
  const MonoTime now = core_.executor().now();
  auto* const leases = table_.of(object);
  if (leases == nullptr) return;
  for (auto& [client, lease] : *leases) {
    if (lease.holder == own) continue;  // the client drops it when it sends the request and when it gets the reply
    if (only_gathering && !(lease.gathers && client != own.client)) continue;
    if (client == own.client && lease.delegated && !is_late(operation, lease)) continue;
    const bool kept = is_kept(operation, object, lease);
    const auto session = sessions_.find(client);
    // This session has been silent for so long that all its leases have expired.
    if (session == sessions_.end() || (!kept && now - session->second.heard >= this->lease())) {
      wait.silent.push_back(client);
      continue;
    }
    recall_one(object, client, lease);
    const Duration of_session = core_.options().session_lease;
    const MonoTime end =
        kept ? session->second.heard + 2 * of_session : std::min(lease.until, session->second.heard + this->lease());
    if ((kept ? end : lease.until) <= now) {
      wait.over.emplace_back(object, client);
    } else {
      wait.until = std::max(wait.until.value_or(end), end);
    }
  }
}

std::optional<MonoTime> LeaseManager::others_until(const Operation& operation) {
  Wait wait;
  const TouchedByRun& changes = operation.changes();
  for (const Handle object : changes.touched().objects) look_at_holders(operation, object, false, wait);
  if (const Handle opened = changes.opened_for_reading()) look_at_holders(operation, opened, true, wait);
  run_out_.add(wait.over.size() + wait.silent.size());
  for (const auto& [object, client] : wait.over) table_.drop(object, client);
  for (const ClientId client : wait.silent) table_.drop_silent(client);
  tell_held();
  return wait.until;
}

job::Task<Result<void>> LeaseManager::wait_until(MonoTime when, job::StopToken stop) {
  job::DeadlineScope scope(core_.executor(), when, stop);
  std::ignore = co_await answered_.wait(scope.token());
  if (stop.stopped()) co_return Error(stop.reason(), "clients that cache the object have not dropped it yet");
  co_return {};
}

job::Task<Result<void>> LeaseManager::wait_for_others(Operation& operation) {
  const job::StopToken stop = operation.call().stop;
  while (is_in_grace(operation)) {
    SPATE_CO_TRY(std::ignore, co_await wait_until(grace_end_, stop));
  }
  for (;;) {
    const auto until = others_until(operation);
    if (!until) co_return {};
    SPATE_CO_TRY(std::ignore, co_await wait_until(*until, stop));
  }
}

job::Task<Result<void>> LeaseManager::recall(Operation& operation) {
  if (!is_in_grace(operation) && !others_until(operation)) co_return {};
  const MonoTime begin = core_.executor().now();
  auto done = co_await wait_for_others(operation);
  waits_.record(static_cast<std::uint64_t>((core_.executor().now() - begin).count()));
  co_return done;
}

}  // namespace spate::meta
