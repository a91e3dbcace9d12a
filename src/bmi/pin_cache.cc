// SPDX-License-Identifier: Apache-2.0
#include "bmi/pin_cache.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace spate::bmi {

PinCache::PinCache(Registrar& registrar, PageWatcher* watcher, Options options)
    : registrar_(registrar), watcher_(watcher), options_(options) {
  SPATE_CHECK(options.page_bytes > 0 && (options.page_bytes & (options.page_bytes - 1)) == 0);
}

PinCache::~PinCache() {
  for (auto& [begin, region] : regions_) deregister(std::move(region));
  for (std::unique_ptr<Region>& region : retired_) deregister(std::move(region));
}

PageRange PinCache::pages_of(MutableByteView memory) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t mask = options_.page_bytes - 1;
  return {begin & ~mask, (begin + memory.size() + mask) & ~mask};
}

PinCache::Regions::iterator PinCache::first_overlapping(const PageRange& range) {
  auto it = regions_.upper_bound(range.begin);
  if (it != regions_.begin() && std::prev(it)->second->range_.overlaps(range)) return std::prev(it);
  return it != regions_.end() && it->second->range_.overlaps(range) ? it : regions_.end();
}

PinCache::Region* PinCache::find(const PageRange& range) {
  const auto it = first_overlapping(range);
  return it != regions_.end() && it->second->range_.contains(range) ? it->second.get() : nullptr;
}

Result<PinCache::Region*> PinCache::acquire(MutableByteView memory) {
  SPATE_CHECK(!memory.empty());
  const PageRange range = pages_of(memory);
  Region* region = find(range);
  if (region != nullptr) {
    ++counters_.hits;
    if (region->users_ == 0 && region->kept_ == 0) idle_.remove(*region);
  } else {
    ++counters_.misses;
    SPATE_TRY(region, add(range));
  }
  ++region->users_;
  return region;
}

bool PinCache::holds(MutableByteView memory) { return memory.empty() || find(pages_of(memory)) != nullptr; }

void PinCache::release(Region& region) {
  SPATE_CHECK(region.users_ > 0);
  if (--region.users_ > 0) return;
  if (region.retired_) {
    const auto it = std::ranges::find(retired_, &region, &std::unique_ptr<Region>::get);
    SPATE_CHECK(it != retired_.end());
    deregister(std::move(*it));
    retired_.erase(it);
    return;
  }
  if (region.kept_ > 0) return;
  idle_.push_back(region);
  if (!region.watched_) retire(region);  // nothing would report that its pages are gone
}

Result<void> PinCache::keep(MutableByteView memory) {
  if (memory.empty()) return {};
  const PageRange range = pages_of(memory);
  Region* region = find(range);
  if (region == nullptr || region->kept_ == 0) {
    if (overlaps_kept(range)) {
      ++counters_.refused;
      return Error(Errc::kBusy, "memory that overlaps a registration");
    }
    ++counters_.misses;
    SPATE_TRY(region, pin(range, false));
  }
  ++region->kept_;
  return {};
}

void PinCache::drop(MutableByteView memory) {
  if (memory.empty()) return;
  Region* region = find(pages_of(memory));
  // Registering may have failed, or the pages may have gone before.
  if (region == nullptr || region->kept_ == 0 || --region->kept_ > 0) return;
  if (region->users_ == 0) idle_.push_back(*region);
  retire(*region);  // its pages may disappear at any moment, and they are not watched
}

bool PinCache::overlaps_kept(const PageRange& range) {
  for (auto it = first_overlapping(range); it != regions_.end() && it->second->range_.overlaps(range); ++it) {
    if (it->second->kept_ > 0) return true;
  }
  return false;
}

PageRange PinCache::with_neighbours(const PageRange& wanted) const {
  PageRange range = wanted;
  auto it = regions_.upper_bound(range.begin);
  if (it != regions_.begin()) --it;
  for (; it != regions_.end() && it->second->range_.begin <= range.end; ++it) {
    const Region& near = *it->second;
    if (near.range_.end < range.begin || near.kept_ > 0) continue;
    const PageRange both{std::min(range.begin, near.range_.begin), std::max(range.end, near.range_.end)};
    if (both.size() <= options_.merge_bytes) range = both;
  }
  return range;
}

Result<PinCache::Region*> PinCache::add(const PageRange& wanted) {
  if (overlaps_kept(wanted)) {
    // The range overlaps explicitly registered memory, which must still be found. So this region serves only its own
    // user.
    SPATE_TRY(std::unique_ptr<Region> region, make(wanted, false));
    region->retired_ = true;
    retired_.push_back(std::move(region));
    return retired_.back().get();
  }
  const PageRange wide = with_neighbours(wanted);
  if (wide != wanted) {
    if (Result<Region*> merged = pin(wide, true)) return merged;
  }
  return pin(wanted, true);
}

Result<PinCache::Region*> PinCache::pin(const PageRange& range, bool watched) {
  // A larger registration replaces those that it contains. They are deregistered first, so that the limit holds.
  for (auto it = first_overlapping(range); it != regions_.end(); it = first_overlapping(range)) {
    ++counters_.merges;
    retire(*it->second);
  }
  SPATE_TRY(std::unique_ptr<Region> region, make(range, watched));
  Region* raw = region.get();
  regions_.emplace(range.begin, std::move(region));
  return raw;
}

Result<std::unique_ptr<PinCache::Region>> PinCache::make(const PageRange& range, bool watched) {
  if (!make_room(range)) {
    ++counters_.refused;
    return Error(Errc::kNoMemory, "the registrations in use have reached the limit");
  }
  auto region = std::make_unique<Region>();
  region->range_ = range;
  region->watched_ = watched && watcher_ != nullptr && watcher_->watch(range);
  Result<void*> handle = registrar_.pin(range);
  if (!handle) {
    if (region->watched_) watcher_->unwatch(range);
    ++counters_.refused;
    return handle.error();
  }
  region->handle_ = *handle;
  counters_.pinned_bytes += range.size();
  return region;
}

bool PinCache::make_room(const PageRange& wanted) {
  while (pinned_now() + wanted.size() > options_.max_bytes) {
    Node* oldest = idle_.front();
    if (oldest == nullptr) return false;
    ++counters_.evictions;
    retire(static_cast<Region&>(*oldest));
  }
  return true;
}

void PinCache::retire(Region& region) {
  const auto it = regions_.find(region.range_.begin);
  SPATE_CHECK(it != regions_.end() && it->second.get() == &region);
  std::unique_ptr<Region> owned = std::move(it->second);
  regions_.erase(it);
  region.retired_ = true;
  if (region.users_ > 0) {
    retired_.push_back(std::move(owned));
    return;
  }
  if (region.kept_ == 0) idle_.remove(region);
  deregister(std::move(owned));
}

void PinCache::deregister(std::unique_ptr<Region> region) {
  if (region->watched_) watcher_->unwatch(region->range_);
  registrar_.unpin(region->handle_);
  counters_.unpinned_bytes += region->range_.size();
}

void PinCache::invalidate(const PageRange& range) {
  for (auto it = first_overlapping(range); it != regions_.end(); it = first_overlapping(range)) {
    ++counters_.invalidations;
    retire(*it->second);
  }
}

void PinCache::forget(Region& region) {
  if (!region.retired_ && region.kept_ == 0) retire(region);
}

}  // namespace spate::bmi
