// SPDX-License-Identifier: Apache-2.0
// Link: sends messages to the other members of a group.
#pragma once

#include "base/clock.h"
#include "group/messages.h"
#include "job/stop.h"
#include "job/task.h"

namespace spate::group {

/// Sends messages to the other members. Any number of calls at once, on one executor; it outlives them. A message may
/// arrive late, more than once, or after one that was sent later. It may also have arrived although its sender gets an
/// error.
class Link {
 public:
  virtual ~Link() = default;
  /// Fails with kTimeout after `timeout`.
  virtual job::Task<Result<Answer>> send(ServerId to, std::shared_ptr<const Message> message, Duration timeout,
                                         job::StopToken stop) = 0;
};

}  // namespace spate::group
