// SPDX-License-Identifier: Apache-2.0
// TransferTarget: the file that a transfer works on. Share: one server's part of a transfer.
#pragma once

#include <span>
#include <vector>

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
  Bypass* bypass = nullptr;  // of the open file; null: only the servers move data
};

/// The slots of a transfer that one server holds.
struct Share {
  rpc::Channel* channel = nullptr;
  std::vector<wire::SlotRef> slots;         // ascending
  std::vector<std::uint64_t> stream_bytes;  // for each slot, the length of its stream
  datatype::Description what;               // the part of the transfer's description that this server needs
  std::uint64_t total_bytes() const;
};

/// Groups `slots` by the server that holds their (first) target.
Result<std::vector<Share>> make_shares(const TransferTarget& target, std::span<const std::uint32_t> slots);

wire::SlotSet slot_set(const TransferTarget& target, const Share& share);

}  // namespace spate::client
