// SPDX-License-Identifier: Apache-2.0
// ReplyGate: what a server waits for before it replies when other servers hold the same records.
#pragma once

#include <string>

#include "base/result.h"
#include "job/stop.h"
#include "job/task.h"

namespace spate::rpc {

/// Hellos, pings, statistics and the messages of groups need not pass. It outlives the server's calls. One
/// executor.
class ReplyGate {
 public:
  virtual ~ReplyGate() = default;
  /// Ends when nothing that the request's handler has seen or done can be undone any more. A failure is the reply.
  virtual job::Task<Result<void>> pass(job::StopToken stop) = 0;
  /// Whether the roles on these records answer requests now.
  virtual bool serves() const = 0;
  /// While they do not: the reply to requests that no role of this server knows.
  virtual Error elsewhere() const = 0;
  /// The server's part among those that hold the same records, a few words: ping tells it behind the first role.
  virtual std::string part() const = 0;
};

}  // namespace spate::rpc
