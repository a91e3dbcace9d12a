// SPDX-License-Identifier: Apache-2.0
// Share: one server's part of a transfer. Functions that make shares, run them in parallel and keep the first error.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "client/data/transfer.h"
#include "job/gate.h"

namespace spate::client {

/// The slots of a transfer that one server holds.
struct Share {
  rpc::Channel* channel = nullptr;
  std::vector<wire::SlotRef> slots;         // ascending
  std::vector<std::uint64_t> stream_bytes;  // of each slot's stream
  std::uint64_t total_bytes() const;
};

/// Groups `slots` by the server that holds their (first) target.
Result<std::vector<Share>> make_shares(const TransferTarget& target, std::span<const std::uint32_t> slots);

wire::SlotSet slot_set(const TransferTarget& target, const Share& share);

/// Runs one task for each share, all at once, and waits for all of them. The result is the first failure; the other
/// tasks still run to their end.
job::Task<Result<void>> run_shares(job::Executor& executor, std::vector<job::Task<Result<void>>> tasks);

}  // namespace spate::client
