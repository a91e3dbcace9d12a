// SPDX-License-Identifier: Apache-2.0
#include "bmi/pin_cache.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/expect.h"
#include "base/random.h"

namespace spate::bmi {
namespace {

constexpr std::size_t kPage = 4096;

/// A device that knows which memory is registered, and counts registrations above the limit.
class FakeDevice final : public Registrar, public PageWatcher {
 public:
  Result<void*> pin(const PageRange& range) override {
    if (refuse) return Errc::kNoMemory;
    live.emplace(++last, range);
    return reinterpret_cast<void*>(last);
  }
  void unpin(void* handle) override { EXPECT_EQ(live.erase(reinterpret_cast<std::uintptr_t>(handle)), 1U); }
  bool watch(const PageRange& /*range*/) override { return can_watch; }
  void unwatch(const PageRange& /*range*/) override {}

  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [handle, range] : live) sum += range.size();
    return sum;
  }
  bool holds(const PinCache::Region& region) const {
    const auto found = live.find(reinterpret_cast<std::uintptr_t>(region.handle()));
    return found != live.end() && found->second == region.range();
  }

  std::map<std::uintptr_t, PageRange> live;
  std::uintptr_t last = 0;
  bool refuse = false;
  bool can_watch = true;
};

/// Memory that the test never touches; only its addresses matter.
MutableByteView at(std::uintptr_t page, std::size_t pages) {
  return {reinterpret_cast<std::byte*>(0x10000000 + page * kPage), pages * kPage};
}
PageRange range_of(std::uintptr_t page, std::size_t pages) {
  const auto begin = reinterpret_cast<std::uintptr_t>(at(page, pages).data());
  return {begin, begin + pages * kPage};
}

struct PinCacheTest : testing::Test {
  PinCache::Region& take(PinCache& cache, MutableByteView memory) {
    const Result<PinCache::Region*> region = cache.acquire(memory);
    EXPECT_OK(region);
    EXPECT_TRUE(device.holds(**region)) << "the device does not know the region";
    return **region;
  }
  void use(PinCache& cache, MutableByteView memory) { cache.release(take(cache, memory)); }
  FakeDevice device;
  PinCache::Options options{.page_bytes = kPage, .max_bytes = 100 * kPage, .merge_bytes = 50 * kPage};
};

TEST_F(PinCacheTest, TheSecondUseIsAHit) {
  PinCache cache(device, &device, options);
  use(cache, at(1, 4));
  use(cache, at(2, 1));
  EXPECT_EQ(cache.counters().misses, 1U);
  EXPECT_EQ(cache.counters().hits, 1U);
  EXPECT_EQ(device.live.size(), 1U);
}

TEST_F(PinCacheTest, HoldsReportsARegionWithoutUsingIt) {
  PinCache cache(device, &device, options);
  EXPECT_FALSE(cache.holds(at(1, 4))) << "nothing was registered yet";
  use(cache, at(1, 4));
  EXPECT_TRUE(cache.holds(at(2, 3))) << "the pages are in the region";
  EXPECT_FALSE(cache.holds(at(4, 2))) << "the last page is behind the region";
  EXPECT_EQ(cache.counters().hits + cache.counters().misses, 1U);
}

TEST_F(PinCacheTest, WholePagesAreRegistered) {
  PinCache cache(device, &device, options);
  PinCache::Region& region = take(cache, at(3, 1).subspan(100, 8));
  EXPECT_EQ(region.range(), range_of(3, 1));
  cache.release(region);
}

TEST_F(PinCacheTest, NeighboursBecomeOneRegion) {
  PinCache cache(device, &device, options);
  use(cache, at(0, 4));
  use(cache, at(8, 4));
  use(cache, at(4, 4));
  EXPECT_EQ(device.live.size(), 1U);
  EXPECT_EQ(cache.counters().merges, 2U);
  EXPECT_EQ(device.bytes(), 12 * kPage);
  use(cache, at(0, 12));
  EXPECT_EQ(cache.counters().hits, 1U);
}

TEST_F(PinCacheTest, ARegionInUseThatWasMergedLivesUntilItsRelease) {
  PinCache cache(device, &device, options);
  PinCache::Region& old = take(cache, at(0, 4));
  use(cache, at(4, 4));
  EXPECT_TRUE(device.holds(old)) << "the old region is in use";
  EXPECT_EQ(device.live.size(), 2U);
  cache.release(old);
  EXPECT_EQ(device.live.size(), 1U);
}

TEST_F(PinCacheTest, NeighboursAreNotMergedBeyondTheBound) {
  PinCache cache(device, &device, options);
  use(cache, at(0, 30));
  use(cache, at(30, 30));
  EXPECT_EQ(device.live.size(), 2U);
}

TEST_F(PinCacheTest, TheLeastRecentlyUsedRegionMakesRoom) {
  PinCache cache(device, &device, options);
  use(cache, at(0, 40));
  use(cache, at(100, 40));
  use(cache, at(0, 40));
  use(cache, at(200, 40));
  EXPECT_EQ(cache.counters().evictions, 1U);
  use(cache, at(0, 40));
  EXPECT_EQ(cache.counters().misses, 3U) << "the wrong one went";
  EXPECT_LE(cache.pinned_now(), options.max_bytes);
}

TEST_F(PinCacheTest, RegionsInUseMakeNoRoom) {
  PinCache cache(device, &device, options);
  PinCache::Region& one = take(cache, at(0, 60));
  EXPECT_ERRC(cache.acquire(at(100, 60)), Errc::kNoMemory);
  EXPECT_EQ(cache.counters().refused, 1U);
  cache.release(one);
  use(cache, at(100, 60));
}

TEST_F(PinCacheTest, PagesThatWentAwayAreRegisteredAgain) {
  PinCache cache(device, &device, options);
  use(cache, at(0, 4));
  cache.invalidate(range_of(2, 1));
  EXPECT_THAT(device.live, testing::IsEmpty());
  EXPECT_EQ(cache.counters().invalidations, 1U);
  use(cache, at(0, 4));
  EXPECT_EQ(cache.counters().misses, 2U);
}

TEST_F(PinCacheTest, PagesThatWentAwayWhileInUseAreNotFoundAgain) {
  PinCache cache(device, &device, options);
  PinCache::Region& old = take(cache, at(0, 4));
  cache.invalidate(range_of(0, 4));
  PinCache::Region& fresh = take(cache, at(0, 4));
  EXPECT_NE(old.handle(), fresh.handle());
  cache.release(old);
  EXPECT_TRUE(device.holds(fresh)) << "the release of the old region took the new one";
  cache.release(fresh);
}

TEST_F(PinCacheTest, WithoutAWatchNothingIsKept) {
  device.can_watch = false;
  PinCache watched_in_vain(device, &device, options);
  use(watched_in_vain, at(0, 4));
  PinCache blind(device, nullptr, options);
  use(blind, at(0, 4));
  EXPECT_THAT(device.live, testing::IsEmpty());
}

TEST_F(PinCacheTest, ExplicitRegistrationsStayWithoutAWatch) {
  PinCache cache(device, nullptr, options);
  ASSERT_OK(cache.keep(at(0, 4)));
  use(cache, at(1, 2));
  EXPECT_EQ(cache.counters().hits, 1U);
  use(cache, at(2, 6));  // beside the registered memory, and for this use only
  EXPECT_EQ(device.live.size(), 1U);
  cache.drop(at(0, 4));
  EXPECT_THAT(device.live, testing::IsEmpty());
}

TEST_F(PinCacheTest, ADroppedRegistrationInUseIsNotFoundAgain) {
  PinCache cache(device, &device, options);
  ASSERT_OK(cache.keep(at(0, 4)));
  PinCache::Region& old = take(cache, at(0, 4));
  cache.drop(at(0, 4));
  EXPECT_TRUE(device.holds(old)) << "the dropped region is in use";
  use(cache, at(0, 4));
  EXPECT_EQ(cache.counters().misses, 2U);
  cache.release(old);
}

TEST_F(PinCacheTest, AForgottenRegionIsDeregisteredAtItsLastRelease) {
  PinCache cache(device, &device, options);
  PinCache::Region& region = take(cache, at(0, 4));
  cache.forget(region);
  EXPECT_TRUE(device.holds(region)) << "the forgotten region is in use";
  cache.release(region);
  EXPECT_THAT(device.live, testing::IsEmpty());
}

TEST_F(PinCacheTest, ARefusalByTheDeviceIsAnError) {
  PinCache cache(device, &device, options);
  device.refuse = true;
  EXPECT_ERRC(cache.acquire(at(0, 4)), Errc::kNoMemory);
  EXPECT_ERRC(cache.keep(at(0, 4)), Errc::kNoMemory);
  device.refuse = false;
  use(cache, at(0, 4));
}

/// Compares any sequence of calls with a table of pages. Each page knows which generation of memory it holds.
struct Model {
  static constexpr std::size_t kPages = 64;
  std::vector<std::uint32_t> generation = std::vector<std::uint32_t>(kPages, 0);
};

struct Held {
  PinCache::Region* region = nullptr;
  std::size_t page = 0;
  std::size_t pages = 0;
};

class Walk {
 public:
  explicit Walk(std::uint64_t seed) : random_(seed) {}
  void run() {
    for (int i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) step();
    for (const Held& held : held_) cache_.release(*held.region);
    cache_.invalidate(range_of(0, Model::kPages));
    EXPECT_THAT(device_.live, testing::IsEmpty()) << "something is registered for ever";
  }

 private:
  void step() {
    const std::size_t page = random_.below(Model::kPages);
    const std::size_t pages = 1 + random_.below(std::min<std::size_t>(8, Model::kPages - page));
    switch (random_.below(4)) {
      case 0:
      case 1: return acquire(page, pages);
      case 2: return release();
      case 3: return unmap(page, pages);
    }
  }
  void acquire(std::size_t page, std::size_t pages) {
    const Result<PinCache::Region*> region = cache_.acquire(at(page, pages));
    EXPECT_LE(device_.bytes(), options_.max_bytes);
    EXPECT_EQ(device_.bytes(), cache_.pinned_now());
    if (!region) return;
    EXPECT_TRUE(device_.holds(**region)) << "the device does not know the region";
    EXPECT_TRUE((*region)->range().contains(range_of(page, pages)))
        << "pages " << page << " to " << page + pages - 1 << " are not all in the region";
    // The region is not stale: its pages are those that it was registered with.
    const std::vector<std::uint32_t>& then = registered_at((*region)->handle());
    for (std::size_t i = page; i < page + pages; ++i) EXPECT_EQ(then[i], model_.generation[i]) << "page " << i;
    held_.push_back({*region, page, pages});
  }
  const std::vector<std::uint32_t>& registered_at(void* handle) {
    return seen_.try_emplace(handle, model_.generation).first->second;
  }
  void release() {
    if (held_.empty()) return;
    const std::size_t i = random_.below(held_.size());
    cache_.release(*held_[i].region);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void unmap(std::size_t page, std::size_t pages) {
    for (std::size_t i = page; i < page + pages; ++i) ++model_.generation[i];
    cache_.invalidate(range_of(page, pages));
  }

  SeededRandom random_;
  FakeDevice device_;
  PinCache::Options options_{.page_bytes = kPage, .max_bytes = 48 * kPage, .merge_bytes = 16 * kPage};
  PinCache cache_{device_, &device_, options_};
  Model model_;
  std::vector<Held> held_;
  // By registration: the generations of its pages when it was first seen.
  std::map<void*, std::vector<std::uint32_t>> seen_;
};

TEST(PinCacheWalk, AgreesWithATableOfPages) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Walk(seed).run();
  }
}

}  // namespace
}  // namespace spate::bmi
