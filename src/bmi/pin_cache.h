// SPDX-License-Identifier: Apache-2.0
// PinCache: registrations of memory with a network device, kept as long as they may be of use (the pin-down cache of
// ORFA sec. 4.1). docs/memory-registration.md. Pure: the device and the watch over the address space are interfaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "bmi/node_list.h"

namespace spate::bmi {

/// A run of whole pages, [begin, end).
struct PageRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::size_t size() const { return end - begin; }
  bool contains(const PageRange& other) const { return begin <= other.begin && other.end <= end; }
  bool overlaps(const PageRange& other) const { return begin < other.end && other.begin < end; }
  friend bool operator==(const PageRange&, const PageRange&) = default;
};

/// Registers memory with the network device.
class Registrar {
 public:
  virtual ~Registrar() = default;
  /// Returns a handle for unpin() and for the users of the registration. On failure nothing is registered.
  virtual Result<void*> pin(const PageRange& range) = 0;
  virtual void unpin(void* handle) = 0;
};

/// Reports pages that go away (bmi/page_watch.h).
class PageWatcher {
 public:
  virtual ~PageWatcher() = default;
  /// From now on the end of any page of the range is reported. False: this memory cannot be watched.
  virtual bool watch(const PageRange& range) = 0;
  virtual void unwatch(const PageRange& range) = 0;
};

struct PinCounters {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;      // regions removed to make room
  std::uint64_t merges = 0;         // regions that became part of a larger one
  std::uint64_t invalidations = 0;  // regions whose pages went away
  std::uint64_t refused = 0;        // ranges that could not be registered
  std::uint64_t pinned_bytes = 0;   // registered so far; minus unpinned_bytes: registered now
  std::uint64_t unpinned_bytes = 0;
};

/// Not thread-safe. Live regions never overlap. A region whose pages went away, or that a larger one has replaced, is
/// no longer found. It is deregistered when its last user releases it, or at once if it has none.
class PinCache {
 public:
  struct Options {
    std::size_t page_bytes = 4096;
    std::uint64_t max_bytes = std::uint64_t{1} << 30U;     // the most bytes that are pinned at a time
    std::uint64_t merge_bytes = std::uint64_t{64} << 20U;  // neighbours become one region up to this size
  };

  class Region : public Node {
   public:
    const PageRange& range() const { return range_; }
    void* handle() const { return handle_; }

   private:
    friend class PinCache;
    PageRange range_;
    void* handle_ = nullptr;
    std::uint32_t users_ = 0;
    std::uint32_t kept_ = 0;  // how many explicit registrations hold it
    bool watched_ = false;
    bool retired_ = false;  // no longer found
  };

  /// `watcher` may be null; then only explicit registrations are kept. Both outlive the cache.
  PinCache(Registrar& registrar, PageWatcher* watcher, Options options);
  PinCache(const PinCache&) = delete;
  PinCache& operator=(const PinCache&) = delete;
  /// Deregisters everything. The device must no longer use any of it.
  ~PinCache();

  /// A region that holds `memory` (not empty), in use until release(). kNoMemory: regions that are in use or kept have
  /// reached the limit; otherwise the device's own reason.
  Result<Region*> acquire(MutableByteView memory);
  void release(Region& region);
  /// Deregisters a region at its last release, unless it is registered explicitly. Call it when a peer that knows the
  /// region's key is no longer trusted.
  void forget(Region& region);

  /// Whether acquire() would be a hit.
  bool holds(MutableByteView memory);

  /// Registers `memory`, unwatched, until drop(). The caller guarantees that the pages stay. kBusy: overlaps kept ones.
  Result<void> keep(MutableByteView memory);
  void drop(MutableByteView memory);

  /// The caller reports that these pages are gone, or were replaced by others.
  void invalidate(const PageRange& range);

  const PinCounters& counters() const { return counters_; }
  std::uint64_t pinned_now() const { return counters_.pinned_bytes - counters_.unpinned_bytes; }

 private:
  using Regions = std::map<std::uintptr_t, std::unique_ptr<Region>>;  // by begin

  PageRange pages_of(MutableByteView memory) const;
  Region* find(const PageRange& range);
  Result<Region*> add(const PageRange& wanted);
  PageRange with_neighbours(const PageRange& wanted) const;
  bool overlaps_kept(const PageRange& range);
  Result<Region*> pin(const PageRange& range, bool watched);
  Result<std::unique_ptr<Region>> make(const PageRange& range, bool watched);
  bool make_room(const PageRange& wanted);
  void retire(Region& region);
  void deregister(std::unique_ptr<Region> region);
  Regions::iterator first_overlapping(const PageRange& range);

  Registrar& registrar_;
  PageWatcher* const watcher_;
  const Options options_;
  Regions regions_;
  std::vector<std::unique_ptr<Region>> retired_;  // all of them are in use
  NodeList idle_;                                 // neither in use nor explicit, least recently used first
  PinCounters counters_;
};

}  // namespace spate::bmi
