// SPDX-License-Identifier: Apache-2.0
// OpenDirectories: the directories that processes are reading through a mount.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "wire/meta_messages.h"

namespace spate::fuse {

/// An open directory: the page that the servers sent last, which outlasts several of the kernel's small requests.
struct OpenDirectory {
  std::mutex mutex;
  std::uint64_t page_begins = 0;  // the cookie that was asked with
  bool loaded = false;
  wire::ReaddirReply page;
};

/// Thread-safe. A place in a directory is all in the kernel's offset, so that one that an earlier process of the mount
/// has opened needs no more than its number.
class OpenDirectories {
 public:
  explicit OpenDirectories(std::uint64_t first_number) : last_(first_number) {}

  std::uint64_t add() {
    const std::lock_guard lock(mutex_);
    return ++last_;
  }
  /// Shared: once a request is answered the kernel may close the directory, on another thread, before its handler has
  /// let go.
  std::shared_ptr<OpenDirectory> find(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<OpenDirectory>& directory = directories_[number];
    if (directory == nullptr) directory = std::make_shared<OpenDirectory>();
    return directory;
  }
  void remove(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    directories_.erase(number);
  }

 private:
  std::mutex mutex_;
  std::uint64_t last_;
  std::unordered_map<std::uint64_t, std::shared_ptr<OpenDirectory>> directories_;  // those that were read
};

}  // namespace spate::fuse
