// SPDX-License-Identifier: Apache-2.0
// The checks of a request before the server does anything for it. All of them are synchronous: nothing changes between
// two checks.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "rpc/call.h"
#include "server/io/parts.h"
#include "wire/io_messages.h"

namespace spate::io {

enum class CapabilityNeed : std::uint8_t { kRequired, kOptional };

/// Yields the caller's entry (null: a server) if the caller is current and has the right. Fails with kUnauthenticated
/// for a connection that is older than the client's newest or than its entry, with kSessionFenced, kCapabilityInvalid
/// or kCapabilityExpired, or with kReadOnly. A server needs no capability, and neither does a client where it is
/// optional; a capability that is present is always checked.
Result<ClientTable::Entry*> authorize(Parts& parts, const rpc::Call& call, Handle handle, Rights rights,
                                      CapabilityNeed need);

/// The file and rights that a capability must grant.
struct Claim {
  Handle handle;
  Rights rights = Rights::kNone;
};
/// Checks a client's capability as authorize() checks the one in the header. For requests that concern a second file.
Result<void> check_capability(Parts& parts, const rpc::Call& call, const Capability& capability, Claim claim);

/// authorize() without the capability, for requests that concern no file.
Result<ClientTable::Entry*> find_caller(Parts& parts, const rpc::Call& call);

/// The session epoch in which the request was made: the one signed in its capability, or the one in which its
/// connection joined.
std::uint32_t epoch_of(const rpc::Call& call);

/// The client that the request serves, and its urgency. Only servers may mark a request as urgent.
flow::Asker asker_of(const rpc::Call& call, const ClientTable::Entry* caller);

/// The error that the caller gets for a failure. A request that a fence has ended reports the fence.
Error explain(Error error, const ActiveRequest& active, const ClientTable::Entry* caller);

/// Fails with kStaleMap for a target that this server does not have.
Result<Target*> find_target(Parts& parts, TargetId id);
/// find_target() for a target or a group. Fails with kNotPrimary if this server does not lead the group now.
Result<Place> find_place(Parts& parts, TargetId id);
/// find_place() for some slots of one file, which must be 1..kMaxSlots and ascending, and which the call may name
/// (check_named()).
Result<std::vector<Place>> find_places(Parts& parts, const rpc::Call& call, std::span<const wire::SlotRef> slots);
/// Refuses a change of a single copy of a mirrored file, which would make the copies unequal: kCapabilityInvalid if
/// `named` is a target although this genuine capability is for a file whose data are on groups.
Result<void> check_named(Parts& parts, const rpc::Call& call, const Capability& capability, TargetId named);
/// Call it before anything that was read at these places is answered: kNotPrimary if this server may no longer lead.
Result<void> check_places(std::span<const Place> places);
Result<void> check_places(const Slots& slots);
/// find_places() with the distribution. Fails with kBusy when too many datafiles are in use, and with kStaleLayout when
/// the call's capability has an older layout than another capability has shown.
Result<Slots> find_slots(Parts& parts, const rpc::Call& call, const wire::SlotSet& where);

/// The time of a change as the client reports it, moved to within ten minutes of this server's clock: a datafile's time
/// of change never goes back, so a time in the far future would stay.
WallTime credible_time(const Parts& parts, WallTime told);

/// Fails with kInvalidArgument unless bulk messages may have this size.
Result<void> check_unit(std::uint32_t unit_bytes);

/// The reason why this connection gets no bypass lease for any datafile; nothing if it may have one.
std::optional<std::string> bypass_refusal(const Parts& parts, const rpc::Call& call, bool for_writing);

/// The state as a reply reports it.
wire::DatafileState state_of(const trove::BytestreamStat& stat);

}  // namespace spate::io
