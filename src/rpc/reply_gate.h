// SPDX-License-Identifier: Apache-2.0
// ReplyGate: what a server waits for before it replies when other servers hold the same records.
#pragma once

#include <string>

#include "base/result.h"
#include "job/stop.h"
#include "job/task.h"

namespace spate::rpc {

/// Hellos, pings, statistics and the messages of groups do not wait for the gate. It outlives the server's calls. One
/// executor.
class ReplyGate {
 public:
  virtual ~ReplyGate() = default;
  /// Ends when nothing that the request's handler has seen or done can be undone any more. With `needs_copies`, also as
  /// many servers hold it as the operator demands. A failure becomes the reply.
  virtual job::Task<Result<void>> pass(bool needs_copies, job::StopToken stop) = 0;
  /// Whether the roles that use these records answer requests now.
  virtual bool serves() const = 0;
  /// The reply to requests that no role of this server knows, while serves() is false.
  virtual Error elsewhere() const = 0;
  /// This server's part among those that hold the same records, in a few words. Ping reports it after the first role.
  virtual std::string part() const = 0;
};

}  // namespace spate::rpc
