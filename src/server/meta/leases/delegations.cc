// SPDX-License-Identifier: Apache-2.0
// Delegated directories: who gets them, and how they are recalled (docs/consistency.md, "Attribute leases").
#include <algorithm>

#include "model/defect.h"
#include "server/meta/leases/lease_manager.h"

namespace spate::meta {
namespace {

/// Work of the server itself, such as taking a file's size from its datafiles. It does not depend on names, and the end
/// of a session waits for some of it.
bool is_internal(const rpc::Call& call) { return call.peer->kind == wire::PeerKind::kClient && !call.header.client; }

}  // namespace

std::vector<ClientId> LeaseManager::noted() const {
  std::vector<ClientId> clients = markers_.pending_clients();
  for (const ClientId client : delegators_.pending_clients()) clients.push_back(client);
  return clients;
}

/// Whether another session may have queued changes since before the restart.
bool LeaseManager::waits_for_delegators(const Operation& operation) const {
  const auto& pending = delegators_.pending();
  const rpc::Call& call = operation.call();
  return call.header.op != wire::Op::kQueuedChanges && pending.size() > pending.count(call.header.client);
}

bool LeaseManager::meets(const Operation& operation, Handle object, std::uint64_t ends) const {
  if (is_internal(operation.call())) return false;
  if (planted(Defect::kUnrecalledByRead) && operation.kind() == Operation::Kind::kRead) return false;
  if (waits_for_delegators(operation)) return true;
  const auto holder = table_.delegate_of(object);
  if (holder && *holder != operation.call().header.client) return true;
  return table_.undelegated_since(object, ends);
}

/// Delegates the directories that the operation has made, and tells which of those that it has changed are delegated
/// still: its holder queues nothing in one that has got an access control list. An object that a queued change has made
/// belongs to the delegation of the directory in which it was made.
void LeaseManager::delegate(const Operation& operation, wire::Granted& granted) {
  const rpc::Call& call = operation.call();
  if ((call.peer->features & wire::kFeatureDelegates) == 0) return;
  const ClientId client = call.header.client;
  const wire::Op op = call.header.op;
  const bool queued = op == wire::Op::kQueuedChanges;
  const bool makes = queued || op == wire::Op::kMkdir || op == wire::Op::kChangeBatch;
  const std::vector<wire::LeaseStep>& names = operation.changes().written().names;
  const auto session = sessions_.find(client);
  const bool delegates = makes && session != sessions_.end() && session->second.delegates;
  for (wire::GrantedObject& object : granted.objects) {
    const Handle handle = object.object.attributes.handle;
    const auto name = std::ranges::find(names, handle, &wire::LeaseStep::object);
    const bool made = delegates && name != names.end();
    // A queue knows the names that it has put into a directory of its own.
    const bool empty = (object.flags & wire::GrantedObject::kNeverUsed) != 0;
    const bool may_be = (object.flags & wire::GrantedObject::kDelegated) != 0;
    const bool good = made && (queued || empty) && may_be;
    if (good) {
      table_.set_delegated(handle, client, handle);
    } else if (made && queued) {
      table_.set_delegated(handle, client, name->directory);
    }
    object.flags &= static_cast<std::uint8_t>(~wire::GrantedObject::kDelegated);
    if (may_be && table_.of(handle)->at(client).delegated == handle) object.flags |= wire::GrantedObject::kDelegated;
  }
  if (!queued) return;
  table_.make_room(client);
  recall_surplus();
}

/// Whether the lease does not end by time, since its holder may have gathered writes or queued changes. Those of a
/// session that has ended are lost: its end changes objects on which it has leases, and must not wait for them.
bool LeaseManager::is_kept(const Operation& operation, Handle object, const LeaseTable::Lease& lease) const {
  const ClientId holder = lease.holder.client;
  const bool gathers = lease.gathers && holder != operation.call().header.client;
  const bool delegated = lease.delegated && table_.delegate_of(object) == holder;
  if (!gathers && !delegated) return false;
  return !is_internal(operation.call()) || !core_.parts().sessions->is_ending(holder);
}

/// Recalls what other sessions may have queued changes of, of all that the operation has met. Yields when to look
/// again; nothing if nothing is left. A session that does not send them in time is fenced. While too few servers hold
/// the name space it cannot send them.
std::optional<MonoTime> LeaseManager::delegates_until(const Operation& operation) {
  const MonoTime now = core_.executor().now();
  const Duration patience = core_.options().session_lease;
  std::optional<MonoTime> until;
  if (waits_for_delegators(operation)) {
    if (now >= patience_end_) end_delegators();
    until = now >= patience_end_ ? now + lease() : patience_end_;
  }
  for (const Handle object : operation.met().objects()) {
    const auto holder = table_.delegate_of(object);
    if (!holder || *holder == operation.call().header.client) continue;
    LeaseTable::Lease& lease = table_.of(object)->at(*holder);
    recall_one(object, *holder, lease);
    const MonoTime end = lease.until + (patience - this->lease());
    if (now >= end && !core_.store().store().lacks_copies())
      core_.parts().sessions->end_epoch(*holder, "it has not given back what was delegated to it");
    const MonoTime again = now >= end ? now + this->lease() : end;
    until = std::min(until.value_or(again), again);
  }
  return until;
}

/// Ends the sessions that are alive, but have not said that they know of the restart.
void LeaseManager::end_delegators() {
  if (core_.store().store().lacks_copies()) return;
  for (const ClientId client : delegators_.pending_clients())
    core_.parts().sessions->end_epoch(client, "it has not sent what it had queued before a restart");
}

job::Task<Result<void>> LeaseManager::recall_met(Operation& operation) {
  const MonoTime begin = core_.executor().now();
  const job::StopToken stop = operation.call().stop;
  bool waited = false;
  for (auto until = delegates_until(operation); until; until = delegates_until(operation)) {
    waited = true;
    SPATE_CO_TRY(std::ignore, co_await wait_until(*until, stop));
  }
  if (waited) {
    waits_.record(static_cast<std::uint64_t>((core_.executor().now() - begin).count()));
  } else {  // they have come while the operation ran
    co_await core_.executor().yield();
  }
  co_return {};
}

}  // namespace spate::meta
