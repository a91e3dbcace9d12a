// SPDX-License-Identifier: Apache-2.0
// OpenFiles: the files that processes hold open through a mount.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "client/file/file.h"
#include "client/session/handover_state.h"

namespace spate::fuse {

/// One open of one file; several descriptors may share it (dup, fork).
struct OpenFile {
  Handle handle;
  bool direct = false;                            // the kernel keeps no pages of it
  bool queued = false;                            // its creation was answered locally (fuse/queueing.h)
  bool known_later = false;                       // the open was answered locally: the server learns of it later
  bool moves_atime = true;                        // not O_NOATIME
  std::atomic<bool> pages_differ = false;         // if `queued`: the kernel's pages lack something of the data
  std::uint8_t flags = 0;                         // if `queued`: the wire::OpenFlags of the open
  std::atomic<bool> tail_dropped = false;         // appends have had the kernel drop the pages at the file's end
  bool closing = false;                           // guarded by `opening`: only the close may use `record`
  bool closing_reader = false;                    // the close is in Mount::closing_readers
  client::HandoverState::Open* record = nullptr;  // null: a later process will not know it
  std::mutex opening;
  // If an earlier process has opened the file, or its creation is queued: null until open_file(), and until then
  // guarded by `opening`.
  std::unique_ptr<client::File> file;

  bool is_opened() {
    const std::lock_guard lock(opening);
    return file != nullptr;
  }
  /// Its close sets atime, since the kernel reads its own pages. The next process knows that, too.
  void note_read(WallTime at) {
    const std::lock_guard lock(opening);
    if (record != nullptr && file == nullptr) record->close_atime = at;
  }
  void forget_read() {
    const std::lock_guard lock(opening);
    if (record != nullptr && !closing) record->close_atime.reset();
  }
  /// Call it with `opening` held.
  bool may_have_read() const {
    if (file != nullptr) return allows(file->rights(), Rights::kRead);
    const unsigned open_flags = queued || record == nullptr ? flags : record->open_flags;
    return (open_flags & wire::kOpenRead) != 0;
  }
};

/// The open files of a mount by number. A number is never used again, so a wrong one finds nothing. Begins with the
/// files that earlier processes of the mount had open.
///
/// Life cycle of one open: add() -> find() -> remove() -> released() and forget(), in either order. The record in the
/// handover state, which the next process reads, exists from add() until forget(). The handover state outlives this
/// object. Thread-safe.
class OpenFiles {
 public:
  explicit OpenFiles(client::HandoverState& handover);

  struct New {
    std::unique_ptr<client::File> file;  // null: the creation, or the open, of `queued` is
    Handle queued = {};
    std::uint8_t open_flags = 0;  // the wire::OpenFlags of its open
    bool direct = false;
    std::uint64_t request_id = 0;  // the request that opened it
    bool known_later = false;      // the open of `queued` is, which existed
    bool moves_atime = true;       // if `known_later`: not O_NOATIME
  };
  /// The number that the kernel sends with each request on this open.
  std::uint64_t add(New opened);
  /// Null: there is no such number.
  std::shared_ptr<OpenFile> find(std::uint64_t number) const;
  /// Whether nobody else has this file open now, nor has opened it since this open began.
  bool is_alone(std::uint64_t number) const;
  /// Removes and returns a file; null if there is none. A later process still knows the file until forget().
  std::shared_ptr<OpenFile> remove(std::uint64_t number);
  /// The meta server has ended the open: the next process needs to know nothing of it.
  void forget(OpenFile& file);
  /// The records of opens of the file tell no longer what was read before. Closes that are under way keep theirs.
  void forget_reads(Handle file);
  /// The kernel no longer uses the file. If this process ends before forget(), the next one closes the file.
  void released(OpenFile& file);
  /// Returns the files that the kernel no longer uses, or whose close the previous process has sent. find() knows none
  /// of them, so a repeated release does nothing. A second call returns none.
  std::vector<std::shared_ptr<OpenFile>> take_left();
  /// The open through which an earlier process has written the file. Null: there is none.
  std::shared_ptr<OpenFile> inherited_writer(Handle handle) const;
  /// As remove() and forget(), for an open of an earlier process: it was closed.
  void forget_closed(OpenFile& file);
  std::size_t size() const;
  std::vector<std::shared_ptr<OpenFile>> all() const;

 private:
  struct OpensOfFile {
    std::size_t count = 0;
    std::uint64_t newest = 0;  // the greatest number
  };
  // Call these with the lock held.
  void remove_same_request(std::uint64_t request_id);
  void count(Handle handle, std::uint64_t number);
  void uncount(Handle handle);

  client::HandoverState& handover_;
  mutable std::mutex mutex_;
  std::uint64_t last_;
  std::unordered_map<std::uint64_t, std::shared_ptr<OpenFile>> files_;
  std::unordered_map<Handle, OpensOfFile> by_handle_;
  std::unordered_map<std::uint64_t, std::uint64_t> inherited_;  // their numbers by request_id
  std::vector<std::shared_ptr<OpenFile>> left_;
};

}  // namespace spate::fuse
