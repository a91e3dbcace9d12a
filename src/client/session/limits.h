// SPDX-License-Identifier: Apache-2.0
// Limits: how long an operation of a client may take, and in which session.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "job/stop.h"
#include "model/ids.h"
#include "rpc/channel.h"

namespace spate::client {

/// Whether the error means that the session of the request, or its epoch, has ended.
inline bool session_ended(Errc code) { return code == Errc::kSessionFenced || code == Errc::kSessionUnknown; }

/// In how many sessions or epochs an operation is tried.
inline constexpr int kMostSessions = 4;

/// The deadline of an operation, and the token that may end it earlier.
struct Limits {
  MonoTime deadline;
  job::StopToken stop;
  TraceId trace;                 // of the operation; each of its requests carries it
  std::uint64_t request_id = 0;  // the program's call that it belongs to (client/session/handover_state.h); 0: unknown
  /// If set, the operation is valid only in this epoch of the session. It fails with kSessionFenced or kSessionUnknown
  /// once the epoch has ended.
  std::optional<rpc::SessionEpoch> only_in;
  /// Set for a change of this file's data. It fails with kLostLock if a lock on the file was lost with the session. The
  /// change is not made in the next epoch, when others may have the lock.
  std::optional<Handle> data_of;

  /// The limits of a request that is part of the operation.
  rpc::CallOptions call_options() const {
    rpc::CallOptions options;
    options.deadline = deadline;
    options.stop = stop;
    options.trace = trace;
    options.only_in = only_in;
    return options;
  }
};

}  // namespace spate::client
