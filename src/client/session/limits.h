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

/// Of a request that belongs to a session, or an epoch of one, that has ended.
inline bool session_ended(Errc code) { return code == Errc::kSessionFenced || code == Errc::kSessionUnknown; }

/// In how many sessions, or epochs of one, an operation is tried.
inline constexpr int kMostSessions = 4;

/// When an operation must have ended, and who may end it before.
struct Limits {
  MonoTime deadline;
  job::StopToken stop;
  TraceId trace;            // of the operation, carried by each of its requests
  std::uint64_t cause = 0;  // the program's call that it is part of (client/session/ledger.h); 0: not known
  /// Set: of use in this epoch of the session only. kSessionFenced or kSessionUnknown once it has ended.
  std::optional<rpc::SessionEpoch> only_in;
  /// Set: a change of this file's data. kLostLock once a lock on it was lost with the session: the change is not made
  /// in the next epoch, when others may have the lock.
  std::optional<Handle> data_of;

  /// For a request that is part of the operation.
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
