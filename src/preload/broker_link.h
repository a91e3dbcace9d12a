// SPDX-License-Identifier: Apache-2.0
// The connection to spate-broker (preload/broker), which owns locks and files that outlive the process that asked for
// them. Thread-safe.
#pragma once

#include <string>

#include "preload/broker/messages.h"
#include "preload/descriptors.h"
#include "preload/mounts.h"

namespace spate::preload {

struct Question {
  Mount& mount;
  std::uint64_t broker;  // BrokerPlace::id; the mount's own is started when it is not there
  BrokerRequest request;
  int memfd = -1;  // any descriptor of it
};

/// Sends a request and waits for the answer. A lock request waits until the lock is granted, or until a signal comes
/// that the program does not block (kCancelled). Fails with the broker's error, or with kNoLocks when the broker cannot
/// be reached or started; a message says that once.
Result<BrokerReply> ask_broker(const Question& question);

/// The broker of an open file (BrokerPlace::id): the one that has it already, else the one of this program's settings.
Result<std::uint64_t> broker_of(Description& description);
/// Sends a request to that broker. `descriptor`: any of the file's; -1: the broker need not know which open file it is.
Result<BrokerReply> ask_about(Description& description, int descriptor, const BrokerRequest& request);

/// In a child of fork().
void forget_broker_links();

}  // namespace spate::preload
