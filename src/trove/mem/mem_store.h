// SPDX-License-Identifier: Apache-2.0
// MemStore: datafiles in anonymous memory files (memfd), up to a capacity.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "trove/datafile_store.h"

namespace spate::trove {

/// Each datafile is a memfd, so that an opened one is a real descriptor (sendfile, descriptor passing). Lost with the
/// process. A datafile costs a descriptor: beyond half of RLIMIT_NOFILE a new one is kNoSpace. Lookups are thread-safe.
/// The capacity is exact only if one thread at a time changes datafiles.
class MemStore final : public DatafileStore {
 public:
  /// Bytes that all datafiles together may take, counted in pages.
  explicit MemStore(std::uint64_t capacity_bytes) : capacity_(capacity_bytes) {}

  Datafile find(const DatafileId& id) override;
  Result<Datafile> try_open(const DatafileId& id) override { return open(id, false); }
  Result<Datafile> open(const DatafileId& id, bool create) override;
  Errc remove(const DatafileId& id) override;
  Errc sync_entry(const DatafileId& /*id*/) override { return Errc::kOk; }
  /// Fails with kNoSpace, before anything is written, if the pages that the extents need and do not have yet do not all
  /// fit.
  Errc admit(LocalDatafile& datafile, std::span<const Extent> extents) override;
  void changed(LocalDatafile& datafile, const BytestreamStat& stat) override;

  /// Up to `max` ids after `after`, in the order of ids.
  std::vector<DatafileId> list(const DatafileId& after, std::size_t max) const;
  SpaceInfo space() const;

 private:
  struct Entry {
    Datafile datafile;
    std::uint64_t allocated = 0;
  };
  const std::uint64_t capacity_;
  mutable std::mutex mutex_;
  std::map<DatafileId, Entry> entries_;  // guarded by mutex_
  std::uint64_t used_ = 0;               // guarded by mutex_: sum of allocated
};

}  // namespace spate::trove
