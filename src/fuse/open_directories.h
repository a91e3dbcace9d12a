// SPDX-License-Identifier: Apache-2.0
// OpenDirectories: the directories that processes are reading through a mount.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "client/session/handover_state.h"
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

/// The open directories of a mount by number. Begins with those that earlier processes of the mount had open. The
/// kernel's offset describes a place in a directory completely, so a page need not outlive its process.
///
/// Life cycle of one open: add() -> find() -> remove(). The record in the handover state, which the next process reads,
/// exists as long. The handover state outlives this object. Thread-safe; an OpenDirectory is used with its mutex held.
class OpenDirectories {
 public:
  explicit OpenDirectories(client::HandoverState& handover) : handover_(handover), last_(handover.first_number()) {
    handover_.directories().for_each([this](Record& record) {
      inherited_.emplace(record.request_id, record.number);
      add_record(record.number, record.handle, &record, record.attributes);
    });
  }

  /// `attributes`: the present attributes. `request_id`: of the request that opens it.
  std::uint64_t add(Handle handle, const Attributes& attributes, std::uint64_t request_id) {
    const std::lock_guard lock(mutex_);
    // The previous process may have opened it and been killed before it could answer.
    if (const auto before = inherited_.extract(request_id)) remove_number(before.mapped());
    Record* const record = handover_.directories().take();
    ++last_;
    if (record != nullptr) {
      record->number = last_;
      record->request_id = request_id;
      record->handle = handle;
      record->attributes = attributes;
      handover_.directories().publish(*record);
    }
    add_record(last_, handle, record, attributes);
    return last_;
  }
  /// The attributes of a directory that was removed while it was open: those at the open, with a link count of 0.
  std::optional<Attributes> removed(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(handle);
    if (found == open_.end()) return std::nullopt;
    Attributes last = found->second.attributes;
    last.link_count = 0;
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
    remove_number(number);
  }

 private:
  using Record = client::HandoverState::Directory;
  struct Numbered {
    Handle handle;
    Record* record = nullptr;  // null: a later process will not know it
  };
  struct Open {
    std::size_t count = 0;
    Attributes attributes;  // at the last open
  };
  // Call these with the lock held.
  void add_record(std::uint64_t number, Handle handle, Record* record, const Attributes& attributes) {
    numbers_.emplace(number, Numbered{handle, record});
    Open& open = open_[handle];
    ++open.count;
    open.attributes = attributes;
  }
  void remove_number(std::uint64_t number) {
    const auto found = numbers_.find(number);
    if (found == numbers_.end()) return;
    if (found->second.record != nullptr) handover_.directories().remove(*found->second.record);
    const auto open = open_.find(found->second.handle);
    if (--open->second.count == 0) open_.erase(open);
    numbers_.erase(found);
  }

  client::HandoverState& handover_;
  std::mutex mutex_;
  std::uint64_t last_;
  std::unordered_map<std::uint64_t, std::shared_ptr<OpenDirectory>> directories_;  // the directories that were read
  std::unordered_map<std::uint64_t, Numbered> numbers_;
  std::unordered_map<std::uint64_t, std::uint64_t> inherited_;  // their numbers by request_id
  std::unordered_map<Handle, Open> open_;
};

}  // namespace spate::fuse
