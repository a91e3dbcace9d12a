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
  std::uint64_t broker;  // BrokerPlace::id; the mount's own broker is started if it does not run
  BrokerRequest request;
  int memfd = -1;  // any descriptor of the open file's memory; -1: none
};

/// Sends a request and waits for the answer. A lock request waits until the lock is granted, or until a signal comes
/// that the program does not block (kCancelled). Fails with the broker's error, or with kNoLocks if the broker cannot
/// be reached or started. A message on standard error says that once.
Result<BrokerReply> ask_broker(const Question& question);

/// The broker of an open file (BrokerPlace::id): the one that has the file already, else the one of this program.
Result<std::uint64_t> broker_of(Description& description);
/// Sends a request to broker_of(). `descriptor`: any of the file's; -1: the broker need not know which open file it is.
Result<BrokerReply> ask_about(Description& description, int descriptor, const BrokerRequest& request);

/// Call it in a child of fork().
void forget_broker_links();

}  // namespace spate::preload
