// SPDX-License-Identifier: Apache-2.0
// MemoryKeeper: gives back to the system what a busy time has left in the allocator's hands.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace spate::daemon {

/// Made before other threads are: from then on all share one heap (one thread does nearly all the work, and what a heap of each
/// of RocksDB's threads holds on to is lost to the others). A thread of its own trims that heap when the process has been idle
/// for some seconds after it was busy.
class MemoryKeeper {
 public:
  MemoryKeeper();
  MemoryKeeper(const MemoryKeeper&) = delete;
  MemoryKeeper& operator=(const MemoryKeeper&) = delete;
  ~MemoryKeeper();

 private:
  void keep();

  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace spate::daemon
