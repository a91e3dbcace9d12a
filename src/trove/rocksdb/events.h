// SPDX-License-Identifier: Apache-2.0
// Events: reports of the store's threads to the thread that tests.
#pragma once

#include <memory>

#include "trove/keyval.h"
#include "trove/notify_queue.h"
#include "trove/resolver.h"
#include "trove/rocksdb/read.h"

namespace spate::trove {

class SnapshotReader;

struct Event {
  void* user = nullptr;
  Errc status = Errc::kOk;
  bool completes = false;            // `user` gets a completion
  Version settled = 0;               // not 0: this commit has reached the store, or failed
  Version synced = 0;                // not 0: commits up to it are on the device
  SnapshotReader* reader = nullptr;  // of `read`
  std::unique_ptr<Read> read;        // a read that has ended
};

using EventQueue = NotifyQueue<Event>;

}  // namespace spate::trove
