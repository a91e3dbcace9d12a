// SPDX-License-Identifier: Apache-2.0
// at_primary: sends a share's request to the primary of its group, and to the next primary when that changes.
#pragma once

#include "base/unique_function.h"
#include "client/data/share.h"
#include "client/session/limits.h"
#include "job/task.h"

namespace spate::client {

/// Sends the request of a share each time it is called.
using ShareCall = UniqueFunction<job::Task<Result<void>>(const Share&)>;

/// Calls `once` with the share of a group, which has the channel to the group's primary and a stop token. If another
/// member becomes the primary, `once` is called again. The request of the earlier call may have had an effect or not,
/// so it must be harmless to repeat. kTimeout: no member answered as the primary before the deadline. `session` and
/// `share` outlive the task.
job::Task<Result<void>> at_primary(Session& session, const Share& share, Limits limits, ShareCall once);

/// The task of one share; `once` as above. If the share has no group, this costs nothing more than the call itself.
template <typename Once>
job::Task<Result<void>> run_share(Session& session, const Share& share, const Limits& limits, Once once) {
  if (!share.group) return once(share);
  return at_primary(session, share, limits, ShareCall(std::move(once)));
}

/// For answers that decide what is durable: asks for the records of the layout's groups that are in doubt.
job::Task<Result<void>> settle_doubts(const TransferTarget& target, std::span<const std::uint32_t> slots,
                                      Limits limits);

}  // namespace spate::client
