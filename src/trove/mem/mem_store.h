// SPDX-License-Identifier: Apache-2.0
// The mem module: bytestreams in memory, for tests, for benchmarks without a disk, and for scratch space.
#pragma once

#include <map>
#include <memory>
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

/// Every operation completes in its post; nothing survives the store, which may outlive this object (a restart in a
/// test).
class MemBytestreams final : public Bytestreams {
 public:
  /// `direct_alignment`, for tests of upper layers: the module accepts direct requests with this alignment, and
  /// executes them like any others; 0: it has no direct access.
  explicit MemBytestreams(std::shared_ptr<MemStore> store, std::uint32_t direct_alignment = 0)
      : store_(std::move(store)), direct_alignment_(direct_alignment) {}

  bool post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) override;
  std::size_t test(std::span<BytestreamCompletion> /*out*/) override { return 0; }
  /// -1: there is never anything to wait for.
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override { return true; }
  Result<std::vector<DatafileId>> list(DatafileId after, std::size_t max) override { return store_->list(after, max); }
  Result<SpaceInfo> space() override { return store_->space(); }
  DirectAbility direct() const override {
    return {direct_alignment_, direct_alignment_ > 0 ? "" : "this target is in memory and has no device"};
  }
  Result<void> try_device_memory(MutableByteView /*memory*/) override {
    return direct_alignment_ > 0 ? Result<void>() : Error(Errc::kNotSupported, direct().refusal);
  }
  std::string describe() const override { return "mem"; }

 private:
  std::shared_ptr<MemStore> store_;
  const std::uint32_t direct_alignment_;
};

}  // namespace spate::trove
