// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/arena.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "base/expect.h"
#include "base/random.h"

namespace spate::bmi::shm {
namespace {

constexpr std::uint64_t kArena = 1 << 20;

TEST(ArenaPool, NothingOverlapsAndFreedRoomComesBack) {
  ArenaPool pool(kArena);
  SeededRandom random(5);
  std::map<std::byte*, std::size_t> held;
  std::uint64_t held_bytes = 0;
  for (int i = 0; i < 3000; ++i) {
    if (held_bytes < kArena / 2 && random.chance(2, 3)) {
      const std::size_t size = 1 + random.below(60'000);
      const MutableByteView memory = pool.allocate(size);
      ASSERT_EQ(memory.size(), size);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0U);
      const auto next = held.lower_bound(memory.data());
      if (next != held.end()) ASSERT_LE(memory.data() + size, next->first);
      if (next != held.begin()) ASSERT_LE(std::prev(next)->first + std::prev(next)->second, memory.data());
      memory.front() = memory.back() = std::byte{1};
      held.emplace(memory.data(), size);
      held_bytes += size;
    } else if (!held.empty()) {
      auto victim = held.begin();
      std::advance(victim, static_cast<std::ptrdiff_t>(random.below(held.size())));
      pool.free({victim->first, victim->second});
      held_bytes -= victim->second;
      held.erase(victim);
    }
  }
  for (const auto& [data, size] : held) pool.free({data, size});
  const MutableByteView whole = pool.allocate(kArena);
  EXPECT_EQ(pool.size(0), kArena);
  std::vector<Extent> extents;
  const Segment segment = Segment::of(whole);
  ASSERT_TRUE(pool.locate(SegmentList(&segment, 1), extents)) << "the memory is that of the arena";
  EXPECT_EQ(extents[0], (Extent{0, 0, kArena})) << "all pieces are one again";
}

TEST(ArenaPool, FreedPagesAreGivenBack) {
  ArenaPool pool(kArena);
  const MutableByteView memory = pool.allocate(kArena);
  std::memset(memory.data(), 7, memory.size());
  pool.free(memory);
  const MutableByteView again = pool.allocate(kArena);
  EXPECT_EQ(again.front(), std::byte{0}) << "fresh pages";
}

TEST(ArenaPool, AnAllocationLargerThanAnArenaGetsAnArenaOfItsSize) {
  ArenaPool pool(kArena);
  EXPECT_EQ(pool.allocate(3 * kArena).size(), 3 * kArena);
  EXPECT_EQ(pool.allocate(10).size(), 10U);
  EXPECT_THAT(pool.allocate(0), testing::IsEmpty());
  EXPECT_THAT(pool.allocate(std::uint64_t{1} << 50U), testing::IsEmpty());
}

TEST(ArenaPool, LocatesOnlyMemoryInsideOfArenas) {
  ArenaPool pool(kArena);
  const MutableByteView a = pool.allocate(100'000);
  const MutableByteView b = pool.allocate(kArena);  // another arena
  Bytes other(100);
  std::vector<Extent> extents;
  const std::array both{Segment::of(a.subspan(5000, 10)), Segment::of(b.first(0)), Segment::of(b.subspan(70))};
  ASSERT_TRUE(pool.locate(both, extents)) << "both are in arenas";
  EXPECT_EQ(extents, (std::vector<Extent>{{0, 5000, 10}, {1, 70, kArena - 70}}));
  const std::array foreign{Segment::of(a), Segment::of(MutableByteView(other))};
  EXPECT_FALSE(pool.locate(foreign, extents)) << "one part is foreign memory";
  const std::array file{Segment::of_file(0, 0, 10)};
  EXPECT_FALSE(pool.locate(file, extents)) << "a file is in no arena";
  const std::array beyond{Segment::of(MutableByteView(b.data() + kArena - 1, 2))};
  EXPECT_FALSE(pool.locate(beyond, extents)) << "the last byte is behind the arena";
  const std::vector<Segment> many(kMaxExtents + 1, Segment::of(a.first(1)));
  EXPECT_FALSE(pool.locate(many, extents)) << "there are more parts than a message may name";
}

TEST(ForeignArenas, ReadsTheBytesThatTheOtherSideWrote) {
  ArenaPool pool(kArena);
  const MutableByteView memory = pool.allocate(8192);
  std::memset(memory.data(), 42, memory.size());
  ForeignArenas foreign;
  ASSERT_OK(foreign.add(0, UniqueFd(::dup(pool.read_only(0).get())), pool.size(0)));
  std::vector<protocol::Extent> found;
  const std::array extents{Extent{0, 0, 100}, Extent{0, 8000, 192}};
  ASSERT_EQ(foreign.find(extents, 292, found), ForeignArenas::Found::kYes);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(found[1].address)[191], std::byte{42});
  EXPECT_NE(found[0].address, reinterpret_cast<std::uintptr_t>(memory.data()));
  // A process that gets this descriptor cannot write to the memory.
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, pool.read_only(0).get(), 0), MAP_FAILED);
}

TEST(ForeignArenas, ExtentsAreHeldToTheirArenas) {
  ArenaPool pool(kArena);
  (void)pool.allocate(1);
  ForeignArenas foreign;
  ASSERT_OK(foreign.add(0, UniqueFd(::dup(pool.read_only(0).get())), kArena));
  std::vector<protocol::Extent> segments;
  const auto find = [&](Extent extent, std::uint64_t length) {
    return foreign.find(std::span(&extent, 1), length, segments);
  };
  EXPECT_EQ(find({0, kArena - 1, 1}, 1), ForeignArenas::Found::kYes);
  EXPECT_EQ(find({0, kArena - 1, 2}, 2), ForeignArenas::Found::kInvalid);
  EXPECT_EQ(find({0, ~std::uint64_t{0}, 2}, 2), ForeignArenas::Found::kInvalid);
  EXPECT_EQ(find({0, 2, ~std::uint64_t{0}}, ~std::uint64_t{0}), ForeignArenas::Found::kInvalid);
  EXPECT_EQ(find({1, 0, 1}, 1), ForeignArenas::Found::kInvalid);
  EXPECT_EQ(find({0, 0, 10}, 9), ForeignArenas::Found::kInvalid);
  EXPECT_EQ(find({0, 0, 10}, 11), ForeignArenas::Found::kInvalid);
}

// A process that could shrink the memory, or passes too little of it, could kill this process with SIGBUS.
TEST(ForeignArenas, MemoryThatIsNotSafeIsRefused) {
  ForeignArenas foreign;
  const auto memory = [](unsigned seals, off_t size) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(fd.get(), size), 0);
    if (seals != 0) EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
  };
  EXPECT_ERRC(foreign.add(0, memory(0, 8192), 8192), Errc::kProtocol) << "not sealed";
  EXPECT_ERRC(foreign.add(0, memory(F_SEAL_GROW, 8192), 8192), Errc::kProtocol) << "may shrink";
  EXPECT_ERRC(foreign.add(0, memory(F_SEAL_SHRINK, 4096), 8192), Errc::kProtocol) << "too small";
  EXPECT_ERRC(foreign.add(0, UniqueFd(::open("/proc/self/exe", O_RDONLY)), 8192), Errc::kProtocol) << "a file";
  EXPECT_ERRC(foreign.add(1, memory(F_SEAL_SHRINK, 8192), 8192), Errc::kProtocol) << "not the next";
  EXPECT_ERRC(foreign.add(0, memory(F_SEAL_SHRINK, 8192), 0), Errc::kProtocol);
  UniqueFd huge(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (huge && ::ftruncate(huge.get(), 2 << 20) == 0 && ::fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
    EXPECT_ERRC(foreign.add(0, std::move(huge), 8192), Errc::kProtocol) << "huge pages that may be missing";
  }
  EXPECT_OK(foreign.add(0, memory(F_SEAL_SHRINK, 8192), 8192));
  EXPECT_OK(foreign.add(1, UniqueFd(), 8192)) << "this side ran out of descriptors";
  std::vector<protocol::Extent> segments;
  const Extent extent{1, 0, 100};
  EXPECT_EQ(foreign.find(std::span(&extent, 1), 100, segments), ForeignArenas::Found::kNotMapped);
}

}  // namespace
}  // namespace spate::bmi::shm
