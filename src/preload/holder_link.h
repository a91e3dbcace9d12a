// SPDX-License-Identifier: Apache-2.0
// The way to spate-holder, which has what outlives the process that asked for it (preload/holder). Thread-safe.
#pragma once

#include <string>

#include "preload/holder/messages.h"
#include "preload/mounts.h"

namespace spate::preload {

struct Question {
  Mount& mount;
  std::uint64_t holder;  // HolderPlace::id; the mount's own is started when it is not there
  HoldRequest request;
  int memfd = -1;  // any descriptor of it
};

/// Asks and waits for the answer; for a lock until it is granted or a signal is there that the program does not hold
/// back (kCancelled). The holder's error; kNoLocks when it cannot be reached or started, which is told once.
Result<HoldReply> ask_holder(const Question& question);

/// In a child of fork().
void forget_holder_links();

}  // namespace spate::preload
