// SPDX-License-Identifier: Apache-2.0
// ClosingFiles: files whose last write, or read, is on its way to the meta server with the close.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "job/event.h"
#include "model/ids.h"

namespace spate::fuse {

/// A program that closes a file which it wrote, and opens it again, sends both requests at once, because close(2) does
/// not wait for the release. The open waits here until the close is done, because only then the file's state is known.
/// A call that sets atime waits in the same way for closes of readers. end() and wait() belong to the client's
/// executor; the others are thread-safe.
class ClosingFiles {
 public:
  explicit ClosingFiles(job::Executor& executor) : executor_(executor) {}
  ClosingFiles(const ClosingFiles&) = delete;
  ClosingFiles& operator=(const ClosingFiles&) = delete;

  void begin(Handle handle) {
    const std::lock_guard lock(mutex_);
    Closing& closing = files_[handle];
    if (closing.count++ == 0) closing.done = std::make_shared<job::Event>(executor_);
  }
  void end(Handle handle) {
    std::shared_ptr<job::Event> done;
    {
      const std::lock_guard lock(mutex_);
      const auto found = files_.find(handle);
      if (--found->second.count > 0) return;
      done = std::move(found->second.done);
      files_.erase(found);
    }
    done->set();
  }
  bool has(Handle handle) const { return closing(handle) != nullptr; }
  /// Returns when at least all those closes of the file have ended that had begun before the call.
  job::Task<void> wait(Handle handle) {
    const std::shared_ptr<job::Event> done = closing(handle);  // outlives its entry
    if (done != nullptr) std::ignore = co_await done->wait();
  }

 private:
  struct Closing {
    std::size_t count = 0;
    std::shared_ptr<job::Event> done;
  };
  std::shared_ptr<job::Event> closing(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(handle);
    return found == files_.end() ? nullptr : found->second.done;
  }

  job::Executor& executor_;
  mutable std::mutex mutex_;
  std::unordered_map<Handle, Closing> files_;  // guarded by mutex_
};

}  // namespace spate::fuse
