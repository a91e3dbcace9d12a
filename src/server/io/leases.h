// SPDX-License-Identifier: Apache-2.0
// Leases: the datafiles that clients of this machine read and write by themselves, and how that is ended again
// (docs/data-paths.md, "Bypass").
#pragma once

#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "metrics/metrics.h"
#include "server/io/datafile_table.h"
#include "trove/lease_page.h"

namespace spate::io {

struct Parts;
struct Target;

/// One client's right to one datafile.
struct Lease {
  std::uint64_t id = 0;
  ClientId client;
  std::uint32_t epoch = 0;
  WallTime expiry;
  DatafileKey key;
  Target* target = nullptr;
  std::unique_ptr<trove::LeasePage> page;
  std::uint64_t noted_writes = 0;  // of LeaseWords::writes: what the datafile's counter shows

  bool writable() const { return page->writable(); }
  LeaseWords& words() const { return page->words(); }
};

/// While a client holds a lease for writing, no other one writes the datafile, nothing writes it past the page cache,
/// and it is neither truncated nor removed: whoever wants to goes through lock(). A reader's lease is in nobody's way,
/// as all see one page cache; it ends when the datafile's local file does. One executor; pinned.
class Leases {
 public:
  Leases(Parts& parts, metrics::Registry& metrics);
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  /// Takes the datafile's lock once no lease is in the way of `who` (0: of nobody in particular) in this mode. Leases
  /// that are in the way are recalled; one whose holder does not let go in time is fenced.
  job::Task<Result<DatafileLock::Hold>> lock(DatafileTable::Entry& entry, DatafileLock::Mode mode, ClientId who,
                                             job::StopToken stop);

  std::uint64_t add(Lease lease);
  bool full() const;
  bool has_writer(const DatafileKey& key) const;
  bool has_other_writer(const DatafileKey& key, ClientId client) const;
  /// The lease, if it is this client's.
  Lease* find(std::uint64_t id, ClientId client);

  /// No operation of the holder has an effect when it ends. It is fenced (the datafile moves to a new local file) if it
  /// is still at work after `deadline`.
  job::Task<Result<void>> recall(std::uint64_t id, MonoTime deadline, job::StopToken stop);
  /// The holder has said that it is done.
  job::Task<Result<void>> finish(std::uint64_t id, job::StopToken stop);
  /// All of the client's leases that were granted below this epoch.
  job::Task<Result<void>> end_client(ClientId client, std::uint32_t lowest_epoch, job::StopToken stop);
  job::Task<Result<void>> end_expired(job::StopToken stop);
  /// The datafile's change counter shows what lease holders have written so far.
  job::Task<Result<void>> note(const DatafileKey& key, job::StopToken stop);

  /// Ends what an earlier process of this server granted. Before anybody is served.
  job::Task<Result<void>> end_left_over(job::StopToken stop);
  /// Recalls all; what is still under way after the deadline is left to the next process.
  job::Task<void> stop();

  MonoTime deadline() const;
  std::size_t size() const { return by_id_.size(); }

 private:
  std::vector<std::uint64_t> writers_in_the_way(const DatafileKey& key, ClientId who) const;
  job::Task<Result<void>> fence(Target& target, const DatafileKey& key, job::StopToken stop);
  void mark_recalled(Lease& lease);
  Lease* find(std::uint64_t id);
  void erase(std::uint64_t id);

  Parts& parts_;
  std::uint64_t next_id_;
  std::map<std::uint64_t, std::unique_ptr<Lease>> by_id_;
  std::unordered_multimap<DatafileKey, Lease*> by_key_;
  metrics::Gauge held_;
  metrics::Counter granted_;
  metrics::Counter recalled_;
  metrics::Counter fenced_;
};

}  // namespace spate::io
