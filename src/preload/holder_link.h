// SPDX-License-Identifier: Apache-2.0
// The connection to spate-holder (preload/holder), which owns locks and files that outlive the process that asked for
// them. Thread-safe.
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

/// Sends a request and waits for the answer. A lock request waits until the lock is granted, or until a signal comes
/// that the program does not block (kCancelled). Fails with the holder's error, or with kNoLocks when the holder cannot
/// be reached or started; a message says that once.
Result<HoldReply> ask_holder(const Question& question);

/// In a child of fork().
void forget_holder_links();

}  // namespace spate::preload
