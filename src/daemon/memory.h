// SPDX-License-Identifier: Apache-2.0
// MemoryTrimmer: gives unused memory of the allocator back to the system after a busy time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace spate::daemon {

/// Make it before other threads. From then on two heaps serve all threads: one for the main thread and one for the
/// store's threads. (With a heap for each of RocksDB's threads, memory that one of them keeps is lost to the others;
/// with a single heap, listing a large directory is a fifth slower.) A thread of its own trims the heaps when the
/// process has been idle for some seconds after it was busy. The destructor ends that thread and waits for it.
class MemoryTrimmer {
 public:
  MemoryTrimmer();
  MemoryTrimmer(const MemoryTrimmer&) = delete;
  MemoryTrimmer& operator=(const MemoryTrimmer&) = delete;
  ~MemoryTrimmer();

  /// Sets the function that is called when an idle time begins, some seconds before the heaps are trimmed, on this
  /// class's thread. Empty: none. When on_trim() returns, the earlier function is not running any more.
  void on_trim(std::function<void()> action);

 private:
  void keep();

  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;            // guarded by mutex_
  std::function<void()> on_rest_;  // guarded by mutex_, and called while it is locked
  std::thread thread_;
};

}  // namespace spate::daemon
