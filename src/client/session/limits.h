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

/// The most sessions or epochs in which one operation is tried.
inline constexpr int kMostSessions = 4;

/// The deadline of an operation, and the token that may end it earlier.
struct Limits {
  MonoTime deadline;
  job::StopToken stop;
  TraceId trace;                 // of the operation; each of its requests carries it
  std::uint64_t request_id = 0;  // the program's call that it is part of (client/session/handover_state.h); 0: unknown
  /// If set, the operation is valid only in this epoch of the session. Once the epoch has ended, the operation fails
  /// with kSessionFenced or kSessionUnknown.
  std::optional<rpc::SessionEpoch> only_in;
  /// Set for a change of this file's data. The change fails with kLostLock if a lock on the file was lost with the
  /// session. It is not made in the next epoch, in which others may have the lock.
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
