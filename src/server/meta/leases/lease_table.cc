// SPDX-License-Identifier: Apache-2.0
#include "server/meta/leases/lease_table.h"

#include <algorithm>

#include "base/check.h"

namespace spate::meta {
namespace {

/// Most changes that are remembered while look-ups are under way. If there are more, those look-ups get no leases.
constexpr std::size_t kMostChanges = 16384;
/// Most ends of delegations that are remembered. If there are more, operations under way run again.
constexpr std::size_t kMostEnds = 4096;
/// How many of a full session's oldest leases are recalled at once.
constexpr std::size_t kSurplus = 64;

}  // namespace

void LeaseTable::end_read() {
  SPATE_CHECK(readers_ > 0);
  if (--readers_ == 0) changed_.clear();
}

void LeaseTable::begin_change(Handle object) {
  Changing& changing = changing_[object];
  changing.shared = changing.shared || changing.changes > 0;
  ++changing.changes;
}

void LeaseTable::end_change(Handle object) {
  const auto found = changing_.find(object);
  SPATE_CHECK(found != changing_.end());
  if (--found->second.changes == 0) changing_.erase(found);
  ++clock_;
  if (readers_ == 0) return;
  if (changed_.size() >= kMostChanges) {
    changed_.clear();
    known_since_ = clock_;
  }
  changed_[object] = clock_;
}

bool LeaseTable::grantable(Handle object, const LeaseHolder& holder, Stamp stamp) const {
  if (stamp < known_since_ || changing_.contains(object)) return false;
  const auto changed = changed_.find(object);
  if (changed != changed_.end() && changed->second > stamp) return false;
  const auto found = objects_.find(object);
  if (found == objects_.end()) return true;
  const auto lease = found->second.find(holder.client);
  // A recall under way would end the new lease together with the old one.
  return lease == found->second.end() || !lease->second.recalled;
}

bool LeaseTable::has_room(ClientId client, std::size_t more) {
  const bool fits = leases_ + more <= limits_.leases && of_session(client) + more <= limits_.of_session;
  if (fits || !surplus_.empty()) return fits;
  note_surplus(client, kSurplus);
  return false;
}

void LeaseTable::note_surplus(ClientId client, std::size_t most) {
  const auto session = sessions_.find(client);
  if (session == sessions_.end()) return;
  for (const Handle object : session->second) {
    surplus_.emplace_back(object, client);
    if (surplus_.size() == most) break;
  }
}

/// Twice a request with as many changes as it may have.
void LeaseTable::make_room(ClientId client) {
  constexpr std::size_t kRoom = 1024;
  const std::size_t room = std::min(kRoom, limits_.of_session / 4);
  if (of_session(client) + room > limits_.of_session && surplus_.empty()) note_surplus(client, room / 2);
}

bool LeaseTable::grant(const std::vector<Handle>& objects, const LeaseHolder& holder, Stamp stamp) {
  if (!has_room(holder.client, objects.size())) return false;
  const auto good = [&](Handle object) { return grantable(object, holder, stamp); };
  if (!std::all_of(objects.begin(), objects.end(), good)) return false;
  for (const Handle object : objects) put(object, holder);
  return true;
}

bool LeaseTable::grant(Handle object, const LeaseHolder& holder, Stamp stamp) {
  if (!has_room(holder.client, 1) || !grantable(object, holder, stamp)) return false;
  put(object, holder);
  return true;
}

bool LeaseTable::grant_changed(Handle object, const LeaseHolder& holder) {
  const auto changing = changing_.find(object);
  if (changing == changing_.end() || changing->second.shared) return false;
  bool there = false;
  const auto found = objects_.find(object);
  if (found != objects_.end()) {
    const auto lease = found->second.find(holder.client);
    there = lease != found->second.end();
    if (there && (lease->second.recalled || lease->second.holder.incarnation > holder.incarnation)) return false;
  }
  if (!there && !has_room(holder.client, 1)) return false;
  put(object, holder);
  return true;
}

void LeaseTable::put(Handle object, const LeaseHolder& holder) {
  auto [at, fresh] = objects_[object].try_emplace(holder.client);
  std::list<Handle>& order = sessions_[holder.client];
  if (fresh) {
    ++leases_;
    at->second.place = order.insert(order.end(), object);
  } else {
    order.splice(order.end(), order, at->second.place);
  }
  at->second.holder = holder;
}

std::map<ClientId, LeaseTable::Lease>* LeaseTable::of(Handle object) {
  const auto found = objects_.find(object);
  return found == objects_.end() ? nullptr : &found->second;
}

void LeaseTable::drop(Handle object, ClientId client) {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return;
  const auto lease = found->second.find(client);
  if (lease == found->second.end()) return;
  const auto session = sessions_.find(client);
  session->second.erase(lease->second.place);
  if (session->second.empty()) sessions_.erase(session);
  if (lease->second.delegated) note_end(object);
  found->second.erase(lease);
  if (found->second.empty()) objects_.erase(found);
  --leases_;
}

void LeaseTable::drop_object(Handle object) {
  while (const auto* leases = of(object)) drop(object, leases->begin()->first);
}

void LeaseTable::drop_session(ClientId client, std::uint64_t below_epoch) {
  const auto session = sessions_.find(client);
  if (session == sessions_.end()) return;
  const std::vector<Handle> all(session->second.begin(), session->second.end());
  for (const Handle object : all) {
    if (objects_.at(object).at(client).holder.epoch < below_epoch) drop(object, client);
  }
}

void LeaseTable::drop_silent(ClientId client) {
  const auto session = sessions_.find(client);
  if (session == sessions_.end()) return;
  const std::vector<Handle> all(session->second.begin(), session->second.end());
  for (const Handle object : all) {
    const Lease& lease = objects_.at(object).at(client);
    if (!lease.gathers && !lease.delegated) drop(object, client);
  }
}

void LeaseTable::set_gathers(Handle file, ClientId client, bool gathers) {
  auto* const leases = of(file);
  if (leases == nullptr) return;
  const auto lease = leases->find(client);
  if (lease != leases->end()) lease->second.gathers = gathers;
}

void LeaseTable::set_delegated(Handle object, ClientId client, Handle directory) {
  auto* const leases = of(object);
  if (leases == nullptr) return;
  const auto lease = leases->find(client);
  if (lease == leases->end() || lease->second.delegated) return;
  lease->second.delegated = directory;
  ++delegated_;
}

void LeaseTable::note_end(Handle object) {
  --delegated_;
  if (ended_.size() >= kMostEnds) {
    ended_.clear();
    ended_since_ = ends_;
  }
  ended_[object] = ++ends_;
}

std::optional<ClientId> LeaseTable::delegate_of(Handle object) const {
  const auto leases = objects_.find(object);
  if (leases == objects_.end()) return std::nullopt;
  for (const auto& [client, lease] : leases->second) {
    if (!lease.delegated) continue;
    if (lease.delegated == object) return client;
    const auto above = objects_.find(lease.delegated);
    if (above == objects_.end()) continue;
    const auto directory = above->second.find(client);
    if (directory != above->second.end() && directory->second.delegated == lease.delegated) return client;
  }
  return std::nullopt;
}

bool LeaseTable::undelegated_since(Handle object, Stamp stamp) const {
  if (stamp == ends_) return false;
  if (stamp < ended_since_) return true;
  const auto ended_after = [&](Handle one) {
    const auto found = ended_.find(one);
    return found != ended_.end() && found->second > stamp;
  };
  if (ended_after(object)) return true;
  const auto leases = objects_.find(object);
  if (leases == objects_.end()) return false;
  return std::ranges::any_of(
      leases->second, [&](const auto& lease) { return lease.second.delegated && ended_after(lease.second.delegated); });
}

std::size_t LeaseTable::of_session(ClientId client) const {
  const auto session = sessions_.find(client);
  return session == sessions_.end() ? 0 : session->second.size();
}

}  // namespace spate::meta
