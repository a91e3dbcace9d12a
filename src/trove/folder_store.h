// SPDX-License-Identifier: Apache-2.0
// FolderStore: the datafiles of a target's folder, with a bounded cache of open ones. docs/disk-datafiles.md.
#pragma once

#include <array>
#include <atomic>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "trove/datafile_store.h"
#include "trove/target_folder.h"

namespace spate::trove {

/// Keeps open datafiles in the order of their last use. It never evicts one that somebody holds, so the operations in
/// flight can exceed the limit. Before it evicts a datafile it writes the times back; if that fails, the datafile
/// stays.
///
/// Life cycle: construct -> used by any threads -> destroyed when nothing is in flight. The destructor writes the times
/// of all datafiles back. A failure there leaves the change record, which the next start applies.
///
/// Threads: all calls are safe at any time. find() and try_open() never wait for the device; the other calls may, and
/// belong on a thread that may block. Locks: a stripe (chosen by id) around open and unlink of one name, then mutex_
/// around the table.
class FolderStore final : public DatafileStore {
 public:
  /// `records` may be null; both outlive the store.
  FolderStore(TargetFolder& folder, ChangeRecords* records, std::size_t max_open);
  /// Writes back the times of all datafiles. Nothing may be in flight.
  ~FolderStore() override;

  Datafile find(const DatafileId& id) override;
  Result<Datafile> try_open(const DatafileId& id) override;
  Result<Datafile> open(const DatafileId& id, bool create) override;
  Errc remove(const DatafileId& id) override;
  Errc replace(const DatafileId& id) override;
  Errc sync_entry(const DatafileId& id) override;

  /// Up to `max` ids after `after` ({} to begin), by hashed folder, handle, slot. Reads each folder that it touches.
  /// Skips names that are not a datafile's.
  Result<std::vector<DatafileId>> list(const DatafileId& after, std::size_t max);
  std::size_t open_count() const;

 private:
  struct Entry {
    DatafileId id;
    Datafile datafile;
  };
  using Order = std::list<Entry>;

  std::mutex& stripe(const DatafileId& id);
  Datafile insert(const DatafileId& id, UniqueFd fd, const ChangeTimes& times);
  Result<Datafile> adopt(const DatafileId& id, UniqueFd fd, bool created);
  /// Evicts the least recently used datafiles until the limit holds. False: the limit does not hold, because the other
  /// datafiles are in use or, if it may not block, dirty.
  bool make_room(std::size_t limit, bool may_block);
  Datafile pick_victim(bool may_block);
  void put_out(const Datafile& victim);
  UniqueFd open_file(const DatafileId& id, int flags);
  Result<std::vector<DatafileId>> read_folder(unsigned folder);

  TargetFolder& folder_;
  ChangeRecords* const records_;
  const std::size_t max_open_;
  std::atomic<bool> makes_{false};  // the last open that might make a file has made one
  std::array<std::mutex, 64> stripes_;
  mutable std::mutex mutex_;
  Order order_;                                              // guarded by mutex_; most recent first
  std::unordered_map<DatafileId, Order::iterator> entries_;  // guarded by mutex_
};

}  // namespace spate::trove
