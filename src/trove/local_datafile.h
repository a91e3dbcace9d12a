// SPDX-License-Identifier: Apache-2.0
// LocalDatafile: an open datafile of this process, with its change counter. See docs/disk-datafiles.md, "Counters and
// times".
#pragma once

#include <sys/stat.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/unique_fd.h"
#include "trove/bytestream.h"
#include "trove/change_records.h"

namespace spate::trove {

/// The descriptor alone. It lives as long as somebody holds it, even after the datafile was closed or removed.
class DatafileDescriptor final : public OpenDatafile {
 public:
  explicit DatafileDescriptor(UniqueFd fd) : fd_(std::move(fd)) {}
  int descriptor() const override { return fd_.get(); }

 private:
  UniqueFd fd_;
};

/// Change counter and time of last change, as restored from an inode.
struct ChangeTimes {
  std::uint64_t counter = 0;
  std::int64_t mtime_ns = 0;

  /// Restores both from an inode. They are exact if the datafile was closed in order. Otherwise the counter is larger
  /// than all that were given out for the present content, provided that the local clock is not behind the file
  /// system's.
  static ChangeTimes restore(const struct stat& st);
};

/// Writes both into the inode (counter as access time). 0 or errno.
int store_times(int fd, const ChangeTimes& times);

/// Thread-safe. It owns the descriptor and lasts as long as somebody holds it. The counter is a hybrid logical clock:
/// max(previous + 1, now).
/// Source: Kulkarni et al., "Logical physical clocks", OPODIS 2014, for the rule of local events.
class LocalDatafile {
 public:
  /// `records` may be null (a store that does not outlive the process); not owned.
  LocalDatafile(DatafileId id, UniqueFd fd, ChangeTimes times, ChangeRecords* records);
  LocalDatafile(const LocalDatafile&) = delete;
  LocalDatafile& operator=(const LocalDatafile&) = delete;
  /// Does not write back.
  ~LocalDatafile();

  const DatafileId& id() const { return id_; }
  int fd() const { return descriptor_->descriptor(); }
  const std::shared_ptr<const DatafileDescriptor>& descriptor() const { return descriptor_; }
  /// A second descriptor of the same file, with O_DIRECT, opened at the first call; -errno when that is refused.
  int direct_fd() const;

  /// Call these around each change of content, even one that fails. The counter moves at both, so a reader that saw it
  /// before the end of a change finds it changed afterwards. begin_change() waits until a change that has to be the
  /// only one (try_be_alone()) has ended. Such changes are short, but they read.
  void begin_change(WallTime now);
  void end_change(WallTime now);
  /// Like begin_change(), for a thread that must not wait. False: the change under way is alone, and nothing has begun.
  [[nodiscard]] bool try_begin_change(WallTime now);
  /// Makes the caller's change, which has begun, the only one until it ends. False: other changes are under way.
  [[nodiscard]] bool try_be_alone();
  /// Something other than a change of content may have changed the inode's times. Makes the next write-back store our
  /// times again.
  void touch();

  std::uint64_t change_counter() const;
  ChangeTimes times() const;
  /// Size and space from the local file, the rest from memory. The size is no older than the counter. kIoError if the
  /// file cannot be asked.
  Errc stat(BytestreamStat& out) const;

  /// Stores counter and mtime in the inode, if those in memory are newer. May block. After a failure they stay dirty.
  Errc write_back();
  bool dirty() const;
  /// The file has been unlinked: drops its change record.
  void mark_unlinked();

  /// Whether the entry in the folder is known to be durable. Used by kSync only.
  bool entry_synced() const;
  void set_entry_synced();

 private:
  void bump(WallTime now);
  void save_record();
  void note_begin(WallTime now);

  const DatafileId id_;
  const std::shared_ptr<const DatafileDescriptor> descriptor_;
  ChangeRecords* const records_;

  std::mutex write_back_mutex_;  // one write-back at a time; taken before mutex_
  mutable std::mutex mutex_;     // guards all below; never held over a system call that may block
  ChangeTimes times_;
  std::condition_variable not_alone_;
  std::uint32_t changing_ = 0;
  bool alone_ = false;  // only while changing_ is 1
  int record_ = -1;
  bool dirty_ = false;
  bool unlinked_ = false;
  bool entry_synced_ = false;
  mutable UniqueFd direct_;
};

/// begin_change and end_change as a scope.
class ChangeScope {
 public:
  struct MustNotWait {};
  ChangeScope(LocalDatafile& datafile, WallTime now) : datafile_(datafile), now_(now) { datafile_.begin_change(now_); }
  /// If the begin would have to wait, the scope does not begin and cannot be used.
  ChangeScope(LocalDatafile& datafile, WallTime now, MustNotWait)
      : datafile_(datafile), now_(now), begun_(datafile.try_begin_change(now)) {}
  ChangeScope(const ChangeScope&) = delete;
  ChangeScope& operator=(const ChangeScope&) = delete;
  ~ChangeScope() {
    if (begun_) datafile_.end_change(now_);
  }
  bool begun() const { return begun_; }

 private:
  LocalDatafile& datafile_;
  WallTime now_;
  bool begun_ = true;
};

}  // namespace spate::trove
