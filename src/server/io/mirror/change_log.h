// SPDX-License-Identifier: Apache-2.0
// ChangeLog: the ranges of a group's datafiles that may not be the same, durably, on all members.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "job/storage.h"
#include "model/extent.h"
#include "server/io/mirror/mirror_records.h"

namespace spate::io {

/// The notes of one member about its group: which MiB of which datafiles have changed. A returning member gets a copy
/// of these, instead of everything.
///
/// Life cycle: construct -> load() awaited -> the other calls. Life cycle of a note: note() before the change is made
/// -> it survives the process, and after make_durable() also a crash of the machine -> forget(), when all changes of
/// its window are durable on all members. The primary numbers the windows. Above kMostRegions the largest datafile's
/// notes become one note for the whole of it.
///
/// Calls may overlap. A call that fails has noted the change in memory, but perhaps not in the store: then the change
/// must not be made. One executor; pinned. The keyval context outlives it and its calls.
class ChangeLog {
 public:
  static constexpr std::size_t kMostRegions = 1U << 20U;
  /// A change of more regions is noted from its first one to the datafile's end.
  static constexpr std::uint64_t kMostOfOneChange = 1024;

  ChangeLog(job::KeyvalContext& keyval, TargetId group, std::size_t most_regions = kMostRegions)
      : keyval_(keyval), group_(group), most_regions_(most_regions) {}
  ChangeLog(const ChangeLog&) = delete;
  ChangeLog& operator=(const ChangeLog&) = delete;

  /// Reads what an earlier process has noted. Call it first.
  job::Task<Result<void>> load();

  /// Notes changes of these bytes. The memory behind `extents` outlives the task.
  job::Task<Result<void>> note(DatafileId datafile, std::span<const Extent> extents, std::uint64_t window);
  /// Notes a change of everything from this byte on.
  job::Task<Result<void>> note_from(DatafileId datafile, std::uint64_t offset, std::uint64_t window);
  /// All notes and the list survive a crash of the machine when it ends.
  job::Task<Result<void>> make_durable();
  /// Drops the notes of this window and of those before it.
  job::Task<Result<void>> forget(std::uint64_t window);

  /// Returns up to `max` datafiles of the group after `after`: all that ever had a note and were not removed, even if
  /// they have no note now.
  job::Task<Result<std::vector<DatafileId>>> list(DatafileId after, std::size_t max);
  /// The datafile was removed. Its notes stay.
  job::Task<Result<void>> unlist(DatafileId datafile);

  /// Up to `max` notes behind `after`, in order.
  std::vector<ChangedRegion> page(const std::optional<ChangedRegion>& after, std::size_t max) const;
  /// The datafiles with notes of this window or of those before it.
  std::vector<DatafileId> datafiles(std::uint64_t window) const;
  std::size_t size() const { return count_; }
  /// The newest window with notes, as far as is known; 0: none.
  std::uint64_t newest_window() const { return newest_; }

 private:
  struct Position {
    bool to_the_end = false;
    std::uint64_t region = 0;
    friend auto operator<=>(const Position&, const Position&) = default;
  };
  struct Note {
    std::uint64_t window = 0;
    std::uint64_t stored = 0;  // the window that the store has; 0: none
  };
  using Notes = std::map<Position, Note>;

  job::Task<Result<void>> store(DatafileId datafile, std::vector<Position> positions, std::uint64_t window);
  std::vector<ChangedRegion> merge_largest();

  job::KeyvalContext& keyval_;
  const TargetId group_;
  const std::size_t most_regions_;
  std::map<DatafileId, Notes> notes_;
  std::size_t count_ = 0;
  std::uint64_t stored_ = 0;   // commits
  std::uint64_t durable_ = 0;  // of these, known to be durable
  std::uint64_t newest_ = 0;
};

}  // namespace spate::io
