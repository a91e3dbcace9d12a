// SPDX-License-Identifier: Apache-2.0
// MemoryKeeper: gives back to the system what a busy time has left in the allocator's hands.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace spate::daemon {

/// Made before other threads are: from then on two heaps serve all of them, the main thread's and one of the store's
/// threads. (Each of RocksDB's threads having its own, what one of them holds on to is lost to the others; a single one
/// makes listing a large directory a fifth slower.) A thread of its own trims them when the process rests for some
/// seconds after it was busy.
class MemoryKeeper {
 public:
  MemoryKeeper();
  MemoryKeeper(const MemoryKeeper&) = delete;
  MemoryKeeper& operator=(const MemoryKeeper&) = delete;
  ~MemoryKeeper();

  /// Called when a rest begins, some seconds before the heaps are trimmed, in a thread of its own; empty: nothing is.
  /// When this returns the one before is not running any more.
  void on_rest(std::function<void()> action);

 private:
  void keep();

  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;            // guarded by mutex_, as is
  std::function<void()> on_rest_;  // which is called with it held
  std::thread thread_;
};

}  // namespace spate::daemon
