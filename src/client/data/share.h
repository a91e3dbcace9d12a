// SPDX-License-Identifier: Apache-2.0
// TransferTarget: the file that a transfer works on. Share: one server's part of a transfer.
#pragma once

#include <span>
#include <vector>

#include "client/session/limits.h"
#include "client/session/session.h"
#include "dist/distribution.h"
#include "model/capability.h"
#include "model/layout.h"
#include "wire/io_messages.h"

namespace spate::client {

class AttributeCache;
class Bypass;

/// The file that a transfer works on. It outlives the transfer.
struct TransferTarget {
  Session& session;
  AttributeCache& attributes;
  Handle handle;
  const Layout& layout;
  const Distribution& distribution;
  const Capability& capability;
  wire::DataPath path = wire::DataPath::kAutomatic;
  Bypass* bypass = nullptr;                 // the leases of the open file; null: only the servers move data
  std::optional<WallTime> written_at = {};  // of a write that was acknowledged before; nothing: now
};

/// The slots of a transfer that one server holds. For a mirrored file: the slots of one group.
struct Share {
  rpc::Channel* channel = nullptr;
  TargetId group;                           // 0: the slots name targets of the server
  job::StopToken stop;                      // of a group: stops the request when another member leads (at_primary())
  std::vector<wire::SlotRef> slots;         // ascending
  std::vector<std::uint64_t> stream_bytes;  // for each slot, the length of its stream
  datatype::Description what;               // the part of the transfer's description that this server needs
  std::uint64_t total_bytes() const;
};

/// Groups `slots` by the server that holds their target, or by the group that they name.
Result<std::vector<Share>> make_shares(const TransferTarget& target, std::span<const std::uint32_t> slots);

/// The limits of one request of this share.
inline Limits limits_of(const Share& share, Limits limits) {
  if (share.group) limits.stop = share.stop;
  return limits;
}

/// The largest message of bulk data of a write that begins now, bytes. The server that leads a group passes one message
/// on to the others while it receives the next. So a write that it has alone goes in about four messages.
std::uint32_t write_unit_bytes(const Options& options, const Share& share);

wire::SlotSet slot_set(const TransferTarget& target, const Share& share);

}  // namespace spate::client
