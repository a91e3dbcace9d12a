// SPDX-License-Identifier: Apache-2.0
// Limits: how long an operation of a client may take.
#pragma once

#include "base/clock.h"
#include "job/stop.h"
#include "model/ids.h"
#include "rpc/channel.h"

namespace spate::client {

/// When an operation must have ended, and who may end it before.
struct Limits {
  MonoTime deadline;
  job::StopToken stop;
  TraceId trace;            // of the operation, carried by each of its requests
  std::uint64_t cause = 0;  // the program's call that it is part of (client/ledger.h); 0: not known

  /// For a request that is part of the operation.
  rpc::CallOptions call_options() const {
    rpc::CallOptions options;
    options.deadline = deadline;
    options.stop = stop;
    options.trace = trace;
    return options;
  }
};

}  // namespace spate::client
