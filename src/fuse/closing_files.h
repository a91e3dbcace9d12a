// SPDX-License-Identifier: Apache-2.0
// ClosingFiles: files whose last write is on its way to the meta server with the close.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "job/event.h"
#include "model/ids.h"

namespace spate::fuse {

/// A program that closes a file which it wrote, and opens it again, sends both requests at once, because close(2) does
/// not wait for the release. The open waits here until the close is done, because only then the file's state is known.
/// Only the client's executor uses this object.
class ClosingFiles {
 public:
  explicit ClosingFiles(job::Executor& executor) : executor_(executor) {}
  ClosingFiles(const ClosingFiles&) = delete;
  ClosingFiles& operator=(const ClosingFiles&) = delete;

  void begin(Handle handle) {
    Closing& closing = files_[handle];
    if (closing.count++ == 0) closing.done = std::make_shared<job::Event>(executor_);
  }
  void end(Handle handle) {
    const auto found = files_.find(handle);
    if (--found->second.count > 0) return;
    found->second.done->set();
    files_.erase(found);
  }
  /// Returns when at least all those closes of the file have ended that had begun before the call.
  job::Task<void> wait(Handle handle) {
    const auto found = files_.find(handle);
    if (found == files_.end()) co_return;
    const std::shared_ptr<job::Event> done = found->second.done;  // outlives its entry
    std::ignore = co_await done->wait();
  }

 private:
  struct Closing {
    std::size_t count = 0;
    std::shared_ptr<job::Event> done;
  };
  job::Executor& executor_;
  std::unordered_map<Handle, Closing> files_;
};

}  // namespace spate::fuse
