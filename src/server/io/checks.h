// SPDX-License-Identifier: Apache-2.0
// What a request must pass before anything is done for it. All of it is synchronous: nothing changes between two
// checks.
#pragma once

#include <span>

#include "rpc/call.h"
#include "server/io/parts.h"
#include "wire/io_messages.h"

namespace spate::io {

enum class Need : std::uint8_t { kRequired, kOptional };

/// The caller's entry (null: a server) if it is current and has the right: kUnauthenticated for a connection that is
/// older than the client's newest, kSessionFenced, kCapabilityInvalid, kCapabilityExpired. A server needs no
/// capability; nor does a client where it is optional, but one that is there is checked all the same.
Result<ClientTable::Entry*> authorize(Parts& parts, const rpc::Call& call, Handle handle, Rights rights, Need need);

/// What a capability shall be for.
struct Claim {
  Handle handle;
  Rights rights = Rights::kNone;
};
/// A client's capability, as authorize() checks the header's: for requests that concern a second file.
Result<void> check_capability(Parts& parts, const rpc::Call& call, const Capability& capability, Claim claim);

/// The same without a look at the capability: for what concerns no file.
Result<ClientTable::Entry*> find_caller(Parts& parts, const rpc::Call& call);

/// The session epoch under which the request was made: as signed in its capability, or as its connection joined.
std::uint32_t epoch_of(const rpc::Call& call);

/// For whom it is done and how urgently. Only a server's word that something is urgent counts.
flow::Asker asker_of(const rpc::Call& call, const ClientTable::Entry* caller);

/// What the caller is told of a failure: a request that was cut off by a fence learns that.
Error explain(Error error, const ActiveRequest& active, const ClientTable::Entry* caller);

/// kStaleMap for a target that this server does not have.
Result<Target*> find_target(Parts& parts, TargetId id);
/// The same for some slots of one file, which must be 1..kMaxSlots, ascending.
Result<std::vector<Target*>> find_targets(Parts& parts, std::span<const wire::SlotRef> slots);
/// The same, with the distribution; kBusy when too many are in use, and kStaleLayout when the call's capability is of
/// an older layout than another one has shown.
Result<Slots> find_slots(Parts& parts, const rpc::Call& call, const wire::SlotSet& where);

/// kInvalidArgument unless bulk messages of this size are to be had.
/// The time of a change, as a client tells it. Nobody is believed whose clock is more than ten minutes off this
/// server's: a datafile's time of change never goes back, so that one from the future would stay.
WallTime credible_time(const Parts& parts, WallTime told);

Result<void> check_unit(std::uint32_t unit_bytes);

/// As a reply tells it.
wire::DatafileState state_of(const trove::BytestreamStat& stat);

}  // namespace spate::io
