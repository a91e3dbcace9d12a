// SPDX-License-Identifier: Apache-2.0
// Leases: the datafiles that clients of this machine read and write directly, and how such a right is taken back
// (docs/data-paths.md, "Bypass").
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "metrics/metrics.h"
#include "server/io/datafile_table.h"
#include "server/io/options.h"
#include "trove/lease_page.h"

namespace spate::io {

struct Target;

/// The parts of the io server that Leases uses. They outlive it.
struct LeasesParts {
  job::Executor& executor;
  const IoOptions& options;
  DatafileTable& datafiles;
  std::deque<Target>& targets;
};

/// One client's right to one datafile.
struct BypassLease {
  std::uint64_t id = 0;
  ClientId client;
  std::uint32_t epoch = 0;
  WallTime expiry;
  DatafileKey key;
  Target* target = nullptr;
  std::unique_ptr<trove::LeasePage> page;
  std::uint64_t noted_writes = 0;  // the value of LeaseWords::writes that the datafile's counter already reflects

  bool writable() const { return page->writable(); }
  LeaseWords& words() const { return page->words(); }
};

/// The bypass leases of this server. While a client holds a lease for writing, no other client writes the datafile,
/// nothing writes it past the page cache, and it is neither truncated nor removed. Operations that do so call lock()
/// first. A reader's lease blocks nothing, because all readers see one page cache; it ends with the datafile's local
/// file.
///
/// Life cycle of a lease: add() -> recalled, by an operation that it blocks, by a fence of its session, by its expiry
/// or by stop() -> its holder has no operation under way, or is fenced after the deadline -> the datafile's change
/// counter covers its writes (note()) -> erased. A lease that cannot be ended stays, and keeps blocking.
///
/// Life cycle: construct -> end_left_over() awaited -> the other calls -> stop() awaited -> destroyed. stop() waits
/// until holders are done, at most for deadline(). It leaves the pages of holders that are still at work to the next
/// process, which ends these leases. One executor; pinned.
class Leases {
 public:
  Leases(LeasesParts parts, metrics::Registry& metrics);
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  /// Takes the datafile's lock once no lease blocks `who` (0: no particular client) in this mode. Recalls the leases
  /// that block it, and fences a lease that its holder does not give back in time.
  job::Task<Result<DatafileLock::Hold>> lock(DatafileTable::Entry& entry, DatafileLock::Mode mode, ClientId who,
                                             job::StopToken stop);

  std::uint64_t add(BypassLease lease);
  bool full() const;
  bool has_writer(const DatafileKey& key) const;
  bool has_other_writer(const DatafileKey& key, ClientId client) const;
  /// The lease, if it is this client's.
  BypassLease* find(std::uint64_t id, ClientId client);

  /// Takes the lease back. When it succeeds, no operation of the holder has an effect any more. A holder that is still
  /// at work after `deadline` is fenced: the datafile moves to a new local file.
  job::Task<Result<void>> recall(std::uint64_t id, MonoTime deadline, job::StopToken stop);
  /// The holder has reported that it no longer uses the lease: ends it.
  job::Task<Result<void>> finish(std::uint64_t id, job::StopToken stop);
  /// The datafile has a tombstone: ends its leases at once, and fences holders at work. Nothing is copied, since nobody
  /// will read what they still write.
  void abandon(const DatafileKey& key);
  /// Ends all of the client's leases that were granted below this epoch. A lease that cannot be ended does not prevent
  /// the end of the others. Its failure is reported when all have been tried.
  job::Task<Result<void>> end_client(ClientId client, std::uint32_t lowest_epoch, job::StopToken stop);
  /// Ends all leases that have expired, in the same way.
  job::Task<Result<void>> end_expired(job::StopToken stop);
  /// Brings the datafile's change counter up to date with the writes of lease holders.
  job::Task<Result<void>> note(const DatafileKey& key, job::StopToken stop);

  /// Ends the leases that an earlier process of this server granted. Call it before serving any request. A lease that
  /// cannot be ended stays: operations that it excludes try again, and fail as long as it stays.
  job::Task<Result<void>> end_left_over(job::StopToken stop);
  /// Recalls all leases. The next process ends those that are still under way after the deadline.
  job::Task<void> stop();

  MonoTime deadline() const;
  std::size_t size() const { return by_id_.size(); }

 private:
  std::vector<std::uint64_t> writers_in_the_way(const DatafileKey& key, ClientId who) const;
  job::Task<Result<void>> recall_all(std::vector<std::uint64_t> ids, job::StopToken stop);
  job::Task<Result<void>> fence(Target& target, const DatafileKey& key, job::StopToken stop);
  void mark_recalled(BypassLease& lease);
  BypassLease* find(std::uint64_t id);
  void erase(std::uint64_t id);

  WallTime now() const { return parts_.executor.clock().wall(); }

  const LeasesParts parts_;
  std::uint64_t next_id_;
  std::map<std::uint64_t, std::unique_ptr<BypassLease>> by_id_;
  std::unordered_multimap<DatafileKey, BypassLease*> by_key_;
  metrics::Gauge held_;
  metrics::Counter granted_;
  metrics::Counter recalled_;
  metrics::Counter fenced_;
};

/// Marks a write through the server that may rewrite the gaps between its pieces (trove::BytestreamRequest). It must
/// not run while a client writes the datafile directly, and no client gets a lease for that while it runs. The writer
/// holds the datafile's lock.
class GapWriter {
 public:
  GapWriter(const Leases& leases, DatafileTable::Entry& datafile)
      : datafile_(datafile), alone_(!leases.has_writer(datafile.key)) {
    if (alone_) ++datafile_.gap_writers;
  }
  GapWriter(const GapWriter&) = delete;
  GapWriter& operator=(const GapWriter&) = delete;
  ~GapWriter() {
    if (alone_) --datafile_.gap_writers;
  }
  bool alone() const { return alone_; }

 private:
  DatafileTable::Entry& datafile_;
  const bool alone_;
};

}  // namespace spate::io
