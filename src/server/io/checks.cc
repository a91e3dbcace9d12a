// SPDX-License-Identifier: Apache-2.0
#include "server/io/checks.h"

#include <algorithm>

#include "dist/registry.h"
#include "log/fields.h"
#include "log/log.h"
#include "server/io/mirror/mirrors.h"

namespace spate::io {
namespace {

Error refused(Parts& parts, const rpc::Call& call, Errc code, std::string_view why) {
  parts.refused.add();
  if (const auto more = parts.refused_log.admit()) {
    SPATE_LOG("server", warn, "request refused: {} reason={} op={} client={} peer={} trace={}{}", why, code,
              wire::op_name(call.header.op), call.peer->client, log::Quoted{call.peer->description}, call.header.trace,
              *more);
  }
  return Error(code, std::string(why));
}

}  // namespace

Result<void> check_capability(Parts& parts, const rpc::Call& call, const Capability& capability, Claim claim) {
  const auto invalid = [&](std::string_view why) { return refused(parts, call, Errc::kCapabilityInvalid, why); };
  if (capability.handle != claim.handle) return invalid("the capability is for another file");
  if (!allows(capability.rights, claim.rights))
    return invalid("the capability does not give this right: open the file for it");
  const bool of_client = call.peer->kind == wire::PeerKind::kClient;
  if (of_client && capability.client != call.peer->client) return invalid("the capability is another client's");
  if (!parts.capabilities.genuine(capability)) return invalid("the capability is not genuine");
  const WallTime now = parts.now();
  if (capability.expiry <= now)
    return refused(parts, call, Errc::kCapabilityExpired, "the capability has expired: renew it");
  if (capability.expiry.ns - now.ns > parts.options.longest_capability.count()) {
    return invalid("the capability would outlive every fence");
  }
  return {};
}

Result<ClientTable::Entry*> find_caller(Parts& parts, const rpc::Call& call) {
  if (call.peer->kind == wire::PeerKind::kServer) return nullptr;
  ClientTable::Entry* const entry = parts.clients.find(call.peer->client);
  if (entry == nullptr || call.peer->incarnation != entry->incarnation) {
    return refused(parts, call, Errc::kUnauthenticated,
                   "a newer connection of this client has taken over: repeat the handshake");
  }
  if (epoch_of(call) < entry->lowest_epoch) {
    return refused(parts, call, Errc::kSessionFenced, "the session has ended: open a new one");
  }
  return entry;
}

Result<ClientTable::Entry*> authorize(Parts& parts, const rpc::Call& call, Handle handle, Rights rights,
                                      CapabilityNeed need) {
  SPATE_TRY(ClientTable::Entry* const caller, find_caller(parts, call));
  // A capability is a session's. Another key of the same user may have opened the file for it.
  if (allows(rights, Rights::kWrite) && call.peer->reads_only())
    return refused(parts, call, Errc::kReadOnly, "the user's key is for reading only");
  if (call.header.capability) {
    SPATE_TRY(std::ignore, check_capability(parts, call, *call.header.capability, {handle, rights}));
  } else if (need == CapabilityNeed::kRequired && caller != nullptr) {
    return refused(parts, call, Errc::kCapabilityInvalid, "the request carries no capability");
  }
  return caller;
}

std::uint32_t epoch_of(const rpc::Call& call) {
  return call.header.capability ? call.header.capability->session_epoch : call.peer->epoch;
}

flow::Asker asker_of(const rpc::Call& call, const ClientTable::Entry* caller) {
  const wire::Priority asked = call.header.priority;
  if (call.peer->kind == wire::PeerKind::kServer) return {ClientId(), asked, call.header.trace};
  const ClientId client = caller != nullptr ? caller->client : ClientId();
  return {client, std::max(asked, wire::Priority::kNormal), call.header.trace};
}

Error explain(Error error, const ActiveRequest& active, const ClientTable::Entry* caller) {
  if (caller == nullptr || error.code() != Errc::kCancelled || active.epoch >= caller->lowest_epoch) return error;
  return Error::told(Errc::kSessionFenced, "the session has ended: open a new one");
}

Result<Target*> find_target(Parts& parts, TargetId id) {
  for (Target& target : parts.targets) {
    if (target.description.id == id) return &target;
  }
  return Error::told(Errc::kStaleMap,
                     "this server does not hold target " + std::to_string(id.value) + ": fetch the cluster map");
}

Result<Place> find_place(Parts& parts, TargetId id) {
  Place place;
  if (is_group(id)) {
    SPATE_TRY(place.term, parts.mirrors->leading(id));
    place.target = &place.term->target();
  } else {
    SPATE_TRY(place.target, find_target(parts, id));
  }
  return place;
}

Result<void> check_named(Parts& parts, const rpc::Call& call, const Capability& capability, TargetId named) {
  if (is_group(named) || !allows(capability.rights, Rights::kOnGroups)) return {};
  return refused(parts, call, Errc::kCapabilityInvalid, "the file is mirrored: name its groups of targets");
}

Result<std::vector<Place>> find_places(Parts& parts, const rpc::Call& call, std::span<const wire::SlotRef> slots) {
  if (slots.empty() || slots.size() > kMaxSlots)
    return Error::told(Errc::kInvalidArgument, "a request names 1 to 4096 slots");
  std::vector<Place> places;
  places.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].slot >= kMaxSlots) return Error::told(Errc::kInvalidArgument, "a slot's number is out of range");
    if (i > 0 && slots[i].slot <= slots[i - 1].slot) return Error::told(Errc::kInvalidArgument, "slots must ascend");
    if (call.header.capability) {
      SPATE_TRY(std::ignore, check_named(parts, call, *call.header.capability, slots[i].target));
    }
    SPATE_TRY(Place place, find_place(parts, slots[i].target));
    places.push_back(std::move(place));
  }
  return places;
}

Result<void> check_places(std::span<const Place> places) {
  for (const Place& place : places) {
    if (place.term == nullptr) continue;
    SPATE_TRY(std::ignore, place.term->check());
  }
  return {};
}

Result<void> check_places(const Slots& slots) {
  for (const ResolvedSlot& slot : slots.list) {
    if (slot.term == nullptr) continue;
    SPATE_TRY(std::ignore, slot.term->check());
  }
  return {};
}

Result<Slots> find_slots(Parts& parts, const rpc::Call& call, const wire::SlotSet& where) {
  if (!where.handle) return Error::told(Errc::kInvalidArgument, "a request needs a handle");
  SPATE_TRY(std::vector<Place> places, find_places(parts, call, where.slots));
  if (where.slots.back().slot >= where.slot_count)
    return Error::told(Errc::kInvalidArgument, "the file has fewer slots");
  if (parts.datafiles.crowded()) return Error::told(Errc::kBusy, "too many datafiles are in use at once");
  Slots slots;
  SPATE_TRY(slots.distribution, make_distribution(where.distribution, where.strip_bytes, where.slot_count));
  const std::uint32_t generation = call.header.capability ? call.header.capability->layout_generation : 0;
  slots.list.reserve(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const DatafileKey key{places[i].target->description.id, {where.handle, where.slots[i].slot}};
    ResolvedSlot slot{key.id, places[i].target, std::move(places[i].term), parts.datafiles.use(key)};
    if (generation != 0 && generation < slot.datafile->layout_generation) {
      return Error::told(Errc::kStaleLayout, "the file's layout has changed: open it again");
    }
    if (generation > slot.datafile->layout_generation) slot.datafile->layout_generation = generation;
    slots.list.push_back(std::move(slot));
  }
  return slots;
}

WallTime credible_time(const Parts& parts, WallTime told) {
  constexpr std::int64_t kMostSkewNs = Duration(std::chrono::minutes(10)).count();
  const std::int64_t now = parts.now().ns;
  return WallTime{std::clamp(told.ns, now - kMostSkewNs, now + kMostSkewNs)};
}

Result<void> check_unit(std::uint32_t unit_bytes) {
  if (unit_bytes >= flow::kMinUnitBytes && unit_bytes <= flow::kMaxUnitBytes) return {};
  return Error::told(Errc::kInvalidArgument,
                     "bulk messages are of 4 KiB to 8 MiB, not of " + std::to_string(unit_bytes) + " bytes");
}

std::optional<std::string> bypass_refusal(const Parts& parts, const rpc::Call& call, bool for_writing) {
  if (parts.options.bypass == BypassPolicy::kOff) return "flow.bypass is off on this server";
  if (for_writing && parts.options.bypass != BypassPolicy::kWrite)
    return "flow.bypass lets clients of this server read only";
  const auto direction = for_writing ? flow::Direction::kWrite : flow::Direction::kRead;
  const wire::DataPath named = parts.options.policy.path_of(direction);
  if (named != wire::DataPath::kAutomatic) {  // a request that bypasses the server would not take the named path
    return std::string(for_writing ? "flow.write_path is " : "flow.read_path is ") + std::string(wire::name_of(named));
  }
  const bmi::PeerInfo peer = parts.flow.network.network().peer_info(call.address);
  if (!peer.passes_descriptors) return "the client is not connected to this server by shm://";
  // A process of the server's user can write the file anyway, without a lease. Nobody else gets a lease for writing.
  if (for_writing && peer.uid != parts.options.own_uid) return "the client does not run as the server's user";
  return std::nullopt;
}

wire::DatafileState state_of(const trove::BytestreamStat& stat) {
  return {stat.size, stat.allocated_bytes, stat.change_counter, stat.mtime};
}

}  // namespace spate::io
