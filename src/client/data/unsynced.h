// SPDX-License-Identifier: Apache-2.0
// UnsyncedFiles: what this client has written or cut and not synced, file by file (docs/consistency.md, "Durability").
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

/// One file. All of this client's opens of it share it, so that a sync through one covers what was written through
/// another, and a loss is told to each of them. One executor.
class UnsyncedFile {
 public:
  UnsyncedFile(Handle its_handle, std::uint32_t slot_count, job::Executor& executor)
      : handle(its_handle), turn(executor, 1), slot_count_(slot_count) {}

  const Handle handle;
  job::Semaphore turn;  // one sync at a time: a second finds nothing dirty while the first has not synced it yet

  /// These slots have been written, by servers of these incarnations.
  void note_written(std::span<const SlotState> slots);
  /// All of it was cut, or may have been written: by which process of each server is not known.
  void note_all();
  /// An earlier process of this client has written the slot last by way of a server of that incarnation.
  void inherit(std::uint32_t slot, Incarnation writer) {
    slots_[slot].since = writer;
    slots_[slot].first = 0;
  }
  void note_loss() { ++losses_; }

  /// What a sync must cover. Not dirty any more: what is written from now on is for the next one.
  std::vector<std::uint32_t> take_dirty();
  /// The sync of these has failed.
  void put_back(std::span<const std::uint32_t> slots);
  /// It has succeeded, at servers of these incarnations: one other than that which took a write has perhaps lost it, as
  /// has one that says so of a change counter that the write's is not above.
  void synced(std::span<const SlotState> slots);
  /// `of` tells the incarnation that was last heard of a slot's server, if any: another one has perhaps lost a write.
  template <typename IncarnationOf>
  void check_heard(IncarnationOf of) {
    for (auto& [number, slot] : slots_) {
      if (!slot.since) continue;
      const Incarnation heard = of(number);
      if (heard && heard != *slot.since) lose(slot);
    }
  }
  /// Nothing is left that a sync must cover or tell of.
  bool clean() const;
  /// None of what was written may still be lost.
  bool all_safe() const;

  /// Counts up when a write may have been lost. An open has been told of those up to the number that it keeps.
  std::uint64_t losses() const { return losses_; }
  /// For an open that begins now: what nobody has been told of yet is told to it, as Linux does (errseq_t).
  std::uint64_t losses_told() const { return losses_told_; }
  void tell(std::uint64_t losses) { losses_told_ = std::max(losses_told_, losses); }

  /// For the next process (client/session/handover_state.h): records of the opens, of use as long as they are kept
  /// here.
  std::set<HandoverState::Open*>& records() { return records_; }

 private:
  friend class UnsyncedFiles;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct UnsyncedSlot {
    std::optional<Incarnation> since;  // the server process that took writes which are not synced
    std::uint64_t first = kNone;       // change counter of the first of them; 0: not known
    std::uint64_t taken = kNone;       // the same of those that a sync is to cover that is under way
    bool dirty = false;
  };
  void lose(UnsyncedSlot& slot);

  const std::uint32_t slot_count_;
  std::map<std::uint32_t, UnsyncedSlot> slots_;  // those that were touched
  bool assumed_ = false;                         // all of it may have been written: what is known of it was forgotten
  std::uint64_t losses_ = 0;
  std::uint64_t losses_told_ = 0;
  std::set<HandoverState::Open*> records_;
  std::uint32_t users_ = 0;                                   // opens
  bool removed_ = false;                                      // it had no name when it was closed
  std::list<std::shared_ptr<UnsyncedFile>>::iterator place_;  // in the list of the closed ones
};

/// Those of a client. Files that are closed stay while there is something to sync or to tell, at most kMostClosed of
/// them, the latest. Of others nothing is known then: a sync of one covers all of it, and does not tell of a server
/// that restarted before. One executor.
class UnsyncedFiles {
 public:
  using FilePtr = std::shared_ptr<UnsyncedFile>;
  static constexpr std::size_t kMostClosed = 65536;

  explicit UnsyncedFiles(job::Executor& executor, std::size_t most_closed = kMostClosed)
      : executor_(executor), most_closed_(most_closed) {}
  UnsyncedFiles(const UnsyncedFiles&) = delete;
  UnsyncedFiles& operator=(const UnsyncedFiles&) = delete;

  /// The file is opened. `made`: by this open, so that nothing can have been written before.
  FilePtr join(Handle handle, std::uint32_t slot_count, bool made);
  /// It is closed. `removed`: it has no name any more. It is kept all the same: another client may have it open, and
  /// give it a name or hand it back. When it is dropped as the oldest, nothing else is in doubt.
  void leave(FilePtr file, bool removed);
  /// A file was cut by its name or handle, open or not.
  void note_cut(Handle handle, std::uint32_t slot_count);
  /// Something is not known any more, or was known to an earlier process only.
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
