// SPDX-License-Identifier: Apache-2.0
// at_primary: sends a share's request to whoever leads its group, and follows the group when that changes.
#pragma once

#include "base/unique_function.h"
#include "client/data/share.h"
#include "client/session/limits.h"
#include "job/task.h"

namespace spate::client {

/// Sends the request of a share, as often as it is called.
using ShareCall = UniqueFunction<job::Task<Result<void>>(const Share&)>;

/// Calls `once` with the share of a group, which has the channel to the group's primary and a stop token. `once` is
/// called again when another member leads the group: the request of the first call may have had an effect or not, so it
/// must be harmless to repeat it. kTimeout: no member led the group before the deadline. `session` and `share` outlive
/// the task.
job::Task<Result<void>> at_primary(Session& session, const Share& share, Limits limits, ShareCall once);

/// The task of one share; `once` as above. A share of no group costs nothing more than the call.
template <typename Once>
job::Task<Result<void>> run_share(Session& session, const Share& share, const Limits& limits, Once once) {
  if (!share.group) return once(share);
  return at_primary(session, share, limits, ShareCall(std::move(once)));
}

/// After answers that must count for what is durable: reads the records of groups of the layout that are in doubt.
job::Task<Result<void>> settle_doubts(const TransferTarget& target, std::span<const std::uint32_t> slots,
                                      Limits limits);

}  // namespace spate::client
