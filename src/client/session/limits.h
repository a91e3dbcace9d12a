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

/// Whether this is the error of a request whose session, or epoch of it, has ended.
inline bool session_ended(Errc code) { return code == Errc::kSessionFenced || code == Errc::kSessionUnknown; }

/// The number of sessions, or epochs of one, in which an operation is tried.
inline constexpr int kMostSessions = 4;

/// The deadline of an operation, and the token that may end it earlier.
struct Limits {
  MonoTime deadline;
  job::StopToken stop;
  TraceId trace;  // of the operation, carried by each of its requests
  std::uint64_t request_id =
      0;  // the program's call that it is part of (client/session/handover_state.h); 0: not known
  /// If set, the operation is valid in this epoch of the session only. It fails with kSessionFenced or kSessionUnknown
  /// once the epoch has ended.
  std::optional<rpc::SessionEpoch> only_in;
  /// Set: a change of this file's data. kLostLock once a lock on it was lost with the session: the change is not made
  /// in the next epoch, when others may have the lock.
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
