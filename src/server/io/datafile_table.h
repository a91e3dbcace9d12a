// SPDX-License-Identifier: Apache-2.0
// DatafileTable: state of the datafiles in use.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "job/semaphore.h"
#include "job/stop.h"
#include "server/io/datafile_lock.h"
#include "server/io/records.h"
#include "trove/bytestream.h"

namespace spate::io {

/// The datafiles of which this server has state in memory: locks, tombstones, numbers of syncs, descriptors. One
/// executor; pinned.
///
/// Life cycle of an entry: use() makes or finds it -> in use while a Use lives -> idle, with its state kept -> dropped,
/// the least recently used first, while there are more than `max_entries`. Entries in use are never dropped, so the
/// table can grow beyond `max_entries`; crowded() says when requests must be refused. A dropped entry loses only what
/// the keyval store also knows, or what needs no memory once nobody uses the datafile.
///
/// A reference to an entry is valid while a Use of it lives. The Uses end before the table.
class DatafileTable {
 public:
  DatafileTable(job::Executor& executor, std::size_t max_entries, std::size_t max_descriptors)
      : executor_(executor), max_entries_(max_entries), max_descriptors_(max_descriptors) {}
  DatafileTable(const DatafileTable&) = delete;
  DatafileTable& operator=(const DatafileTable&) = delete;

  struct Entry {
    Entry(DatafileTable& table, const DatafileKey& its_key)
        : key(its_key), lock(table.executor_), sync_turn(table.executor_, 1), table_(table) {}
    const DatafileKey key;
    /// Writes and punches hold it shared, or direct past the page cache; truncate and removal hold it exclusively.
    DatafileLock lock;
    /// The newest layout generation that a genuine capability for this datafile has shown; 0: none yet.
    std::uint32_t layout_generation = 0;
    /// Whether the keyval store has been asked for a tombstone, and its answer.
    bool tombstone_known = false;
    std::optional<WallTime> tombstone;
    /// Fires when a removal has stored the tombstone.
    job::StopSource removal;
    /// Until then no client gets a lease to write the datafile.
    MonoTime no_writer_until;
    /// Until then its file is not sent as it is, since the network could not read it.
    MonoTime unreadable_until;
    /// Writes under way that may rewrite the gaps between their pieces. While there are any, no client gets a lease to
    /// write the datafile.
    std::uint32_t gap_writers = 0;
    /// One sync at a time (sync.h). Syncs are numbered as they begin. `synced` is the last one that succeeded,
    /// `lossy_sync` the last one that met an error of write-back.
    job::Semaphore sync_turn;
    std::uint64_t syncs_begun = 0;
    std::uint64_t synced = 0;
    std::uint64_t lossy_sync = 0;

   private:
    friend class DatafileTable;
    DatafileTable& table_;
    std::size_t users_ = 0;
    std::list<Entry>::iterator position_;  // in in_use_ while there are users, else in idle_
    std::shared_ptr<const trove::OpenDatafile> file_;
    std::list<Entry*>::iterator in_open_;  // valid while file_ is set
  };

  /// Keeps an entry in the table. Move-only. It must outlive every hold of the entry's lock.
  class Use {
   public:
    Use() = default;
    explicit Use(Entry& entry) : entry_(&entry) { ++entry.users_; }
    Use(Use&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(entry_, other.entry_);
      return *this;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (entry_ != nullptr && --entry_->users_ == 0) entry_->table_.retire(*entry_);
    }
    Entry* operator->() const { return entry_; }
    Entry& operator*() const { return *entry_; }

   private:
    Entry* entry_ = nullptr;
  };

  Use use(const DatafileKey& key);

  /// The descriptor that is kept open, so that a hot datafile costs no look-up; null if there is none.
  std::shared_ptr<const trove::OpenDatafile> file(Entry& entry);
  void keep_open(Entry& entry, std::shared_ptr<const trove::OpenDatafile> file);
  void close(Entry& entry);

  std::size_t size() const { return entries_.size(); }
  /// Whether too many datafiles are in use to add one more: clients' requests must not take memory without a bound.
  bool crowded() const { return in_use_.size() >= kMaxInUse; }
  std::size_t open_count() const { return open_.size(); }

  static constexpr std::size_t kMaxInUse = 262144;

 private:
  void retire(Entry& entry);
  void trim();

  job::Executor& executor_;
  const std::size_t max_entries_;
  const std::size_t max_descriptors_;
  std::list<Entry> in_use_;
  std::list<Entry> idle_;   // last used first
  std::list<Entry*> open_;  // those with a descriptor, last used first
  std::unordered_map<DatafileKey, Entry*> entries_;
};

}  // namespace spate::io
