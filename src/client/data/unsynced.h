// SPDX-License-Identifier: Apache-2.0
// UnsyncedFiles: the writes and truncations of this client that are not synced yet, by file (docs/consistency.md,
// "Durability").
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "client/data/slot_state.h"
#include "client/session/handover_state.h"
#include "job/semaphore.h"

namespace spate::client {

/// One file, shared by all opens of this client. So a sync through one open covers writes through another, and each
/// open learns of a loss. One executor.
class UnsyncedFile {
 public:
  UnsyncedFile(Handle its_handle, std::uint32_t slot_count, job::Executor& executor)
      : handle(its_handle), turn(executor, 1), slot_count_(slot_count) {}

  const Handle handle;
  /// Lets one sync run at a time: a second one would find nothing dirty and return before the first has ended.
  job::Semaphore turn;

  /// Servers of these incarnations have written to these slots.
  void note_written(std::span<const SlotState> slots);
  /// The whole file was truncated, or may have been written, and it is not known which server processes did it.
  void note_all();
  /// The last write to the slot by an earlier process of this client went to a server of that incarnation.
  void inherit(std::uint32_t slot, Incarnation writer) {
    slots_[slot].since = writer;
    slots_[slot].first = 0;
  }
  void note_loss() { ++losses_; }

  /// The slots that a sync must cover. They count as clean from now on, so later writes are for the next sync.
  std::vector<std::uint32_t> take_dirty();
  /// The sync of these slots has failed.
  void put_back(std::span<const std::uint32_t> slots);
  /// The sync of these slots has succeeded. A write may be lost if the server has another incarnation than the one that
  /// took the write, or if the server reports a lost change counter that is not below the write's.
  void synced(std::span<const SlotState> slots);
  /// Checks for losses. `of` returns the incarnation of a slot's server that was seen last, if any. If it differs from
  /// the one that took a write, that write may be lost.
  template <typename IncarnationOf>
  void check_heard(IncarnationOf of) {
    for (auto& [number, slot] : slots_) {
      if (!slot.since) continue;
      const Incarnation heard = of(number);
      if (heard && heard != *slot.since) lose(slot);
    }
  }
  /// Whether there is nothing for a sync to cover or report.
  bool clean() const;
  /// Whether no write can be lost any more.
  bool all_safe() const;

  /// How many losses there were so far. An open keeps the number up to which it has been told.
  std::uint64_t losses() const { return losses_; }
  /// The number for an open that begins now. So it will report losses that no open has reported yet, as in Linux
  /// (errseq_t).
  std::uint64_t losses_told() const { return losses_told_; }
  void tell(std::uint64_t losses) { losses_told_ = std::max(losses_told_, losses); }

  /// For the next process (client/session/handover_state.h): the records of this file's opens. Each is valid as long as
  /// it is in the set.
  std::set<HandoverState::Open*>& records() { return records_; }

 private:
  friend class UnsyncedFiles;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct UnsyncedSlot {
    std::optional<Incarnation> since;  // the server process that took the unsynced writes
    std::uint64_t first = kNone;       // change counter of the first of these writes; 0: not known
    std::uint64_t taken = kNone;       // `first` of the writes that a running sync covers
    bool dirty = false;
  };
  void lose(UnsyncedSlot& slot);

  const std::uint32_t slot_count_;
  std::map<std::uint32_t, UnsyncedSlot> slots_;  // the slots that were touched
  bool assumed_ = false;  // everything may have been written, because what was known was forgotten
  std::uint64_t losses_ = 0;
  std::uint64_t losses_told_ = 0;
  std::set<HandoverState::Open*> records_;
  std::uint32_t users_ = 0;                                   // number of opens
  bool removed_ = false;                                      // the file had no name when it was closed
  std::list<std::shared_ptr<UnsyncedFile>>::iterator place_;  // its place in the list of closed files
};

/// The files of one client. A closed file stays while there is something to sync or to report, but at most kMostClosed
/// of them do. After one with a name was dropped, the first sync of any file opened later covers all of it, and reports
/// no earlier restart of a server.
///
/// Life cycle of one file: each open calls join() once and leave() once. The executor outlives the object. One
/// executor.
class UnsyncedFiles {
 public:
  using FilePtr = std::shared_ptr<UnsyncedFile>;
  static constexpr std::size_t kMostClosed = 65536;

  explicit UnsyncedFiles(job::Executor& executor, std::size_t most_closed = kMostClosed)
      : executor_(executor), most_closed_(most_closed) {}
  UnsyncedFiles(const UnsyncedFiles&) = delete;
  UnsyncedFiles& operator=(const UnsyncedFiles&) = delete;

  /// The file is opened. `made`: this open has created it, so nobody can have written to it before.
  FilePtr join(Handle handle, std::uint32_t slot_count, bool made);
  /// The file is closed. `removed`: it has no name any more. It is kept, because another client may have it open and
  /// give it a name or pass it back. If it is dropped as the oldest, no other file is in doubt.
  void leave(FilePtr file, bool removed);
  /// A file was truncated by its name or handle. It may be closed.
  void note_cut(Handle handle, std::uint32_t slot_count);
  /// Some unsynced writes are no longer known, or only an earlier process knew them.
  void forget_some() { forgotten_ = true; }
  std::size_t size() const { return files_.size(); }

 private:
  void drop_oldest();

  job::Executor& executor_;
  const std::size_t most_closed_;
  std::map<Handle, FilePtr> files_;
  std::list<FilePtr> closed_;  // the oldest first
  bool forgotten_ = false;
};

}  // namespace spate::client
