// SPDX-License-Identifier: Apache-2.0
// OpenDirectories: the directories that processes are reading through a mount.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "wire/meta_messages.h"

namespace spate::fuse {

/// An open directory with the page that came last, which answers several of the kernel's small requests.
struct OpenDirectory {
  std::mutex mutex;
  std::uint64_t page_begins = 0;  // the cookie with which the page was requested
  bool loaded = false;
  bool local = false;  // the page has all entries, by client::local_cookie()
  wire::ReaddirReply page;
};

/// The open directories of a mount by number. The kernel's offset describes a place in a directory completely. So
/// nothing but the number is needed of a directory that an earlier process of the mount has opened. Life cycle of one
/// open: add() -> find() -> remove(). Thread-safe; an OpenDirectory is used with its mutex held.
class OpenDirectories {
 public:
  /// `first_number`: HandoverState::first_number(), so that numbers of earlier processes stay different.
  explicit OpenDirectories(std::uint64_t first_number) : last_(first_number) {}

  /// `attributes`: the present attributes, if they are known.
  std::uint64_t add(Handle handle, const std::optional<Attributes>& attributes) {
    const std::lock_guard lock(mutex_);
    handles_.emplace(++last_, handle);
    Open& open = open_[handle];
    ++open.count;
    if (attributes) open.attributes = attributes;
    return last_;
  }
  /// The attributes of a directory that was removed while it was open: those at the open, with a link count of 0.
  std::optional<Attributes> removed(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(handle);
    if (found == open_.end()) return std::nullopt;
    std::optional<Attributes> last = found->second.attributes;
    if (last) last->link_count = 0;
    return last;
  }
  /// Never null: a number that this process has not seen, such as an earlier process's, gets an OpenDirectory without a
  /// page. Shared, because the kernel may close the directory on another thread once a request is answered, before the
  /// handler has released the object.
  std::shared_ptr<OpenDirectory> find(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<OpenDirectory>& directory = directories_[number];
    if (directory == nullptr) directory = std::make_shared<OpenDirectory>();
    return directory;
  }
  void remove(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    directories_.erase(number);
    const auto handle = handles_.find(number);
    if (handle == handles_.end()) return;
    const auto open = open_.find(handle->second);
    if (--open->second.count == 0) open_.erase(open);
    handles_.erase(handle);
  }

 private:
  struct Open {
    std::size_t count = 0;
    std::optional<Attributes> attributes;
  };
  std::mutex mutex_;
  std::uint64_t last_;
  std::unordered_map<std::uint64_t, std::shared_ptr<OpenDirectory>> directories_;  // the directories that were read
  std::unordered_map<std::uint64_t, Handle> handles_;  // the directories that this process has opened, by number
  std::unordered_map<Handle, Open> open_;
};

}  // namespace spate::fuse
