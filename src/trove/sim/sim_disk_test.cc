// SPDX-License-Identifier: Apache-2.0
// Features of the simulated disk that real ones lack: virtual time, crashes, injected errors, a full disk, its own
// descriptors.
#include "trove/sim/sim_disk.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "base/expect.h"
#include "trove/sim/sim_bytestreams.h"

namespace spate::trove {
namespace {

constexpr DatafileId kFile{Handle(1), 0};

struct World {
  explicit World(std::uint64_t seed, SimDiskModel model = {}) : random(seed), disk(clock, random, 3, model) { start(); }
  void start() { store = std::make_unique<SimBytestreams>(disk); }
  void kill() { store.reset(); }
  void crash() {
    kill();
    disk.crash();
    start();
  }

  BytestreamCompletion run(BytestreamOp op, std::vector<Extent> extents = {}, std::vector<MutableByteView> memory = {},
                           DatafileId id = kFile) {
    BytestreamRequest request;
    request.op = op;
    request.id = id;
    request.extents = extents;
    request.memory = memory;
    request.now = clock.wall();
    std::array<BytestreamCompletion, 1> done;
    if (store->post(request, this, done[0])) return std::move(done[0]);
    while (store->test(done) == 0) clock.set(disk.next_event_time());
    return std::move(done[0]);
  }
  BytestreamCompletion write(std::uint64_t offset, Bytes data, DatafileId id = kFile) {
    return run(BytestreamOp::kWrite, {{offset, data.size()}}, {data}, id);
  }
  Bytes read(std::uint64_t offset, std::size_t size, DatafileId id = kFile) {
    Bytes out(size);
    out.resize(run(BytestreamOp::kRead, {{offset, size}}, {out}, id).bytes);
    return out;
  }
  /// Leaves a write in flight.
  void post_write(std::uint64_t offset, Bytes& data) {
    BytestreamRequest request;
    request.op = BytestreamOp::kWrite;
    request.id = kFile;
    const std::vector<Extent> extents{{offset, data.size()}};
    const std::vector<MutableByteView> memory{data};
    request.extents = extents;
    request.memory = memory;
    BytestreamCompletion done;
    ASSERT_FALSE(store->post(request, this, done));
  }

  ManualClock clock;
  SeededRandom random;
  SimDisk disk;
  std::unique_ptr<SimBytestreams> store;
};

Bytes filled(std::size_t size, int value) { return Bytes(size, static_cast<std::byte>(value)); }

TEST(SimDisk, KilledProcessLosesNothingThatWasAcknowledged) {
  World world(1);
  const BytestreamStat before = world.write(100, filled(9000, 7)).stat;
  world.kill();
  world.start();
  EXPECT_EQ(world.read(100, 9000), filled(9000, 7));
  EXPECT_EQ(world.run(BytestreamOp::kStat).stat.change_counter, before.change_counter);
}

TEST(SimDisk, KilledProcessMayHaveWrittenAPart) {
  std::set<std::size_t> sizes;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SimDiskModel model;
    model.immediate_per_mille = 0;
    World world(seed, model);
    {
      Bytes data = filled(10'000, 9);
      world.post_write(0, data);
      std::fill(data.begin(), data.end(), std::byte{1});
    }  // first its memory is freed, then the process dies
    world.kill();
    world.start();
    const Bytes found = world.read(0, 20'000);
    EXPECT_EQ(found, filled(found.size(), 9));
    sizes.insert(found.size());
  }
  EXPECT_THAT(sizes, ::testing::Contains(0U));
  EXPECT_THAT(sizes, ::testing::Contains(10'000U));
  EXPECT_GT(sizes.size(), 5U);
}

TEST(SimDisk, CrashKeepsWhatWasSynced) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    World world(seed);
    world.write(0, filled(50'000, 1));
    const BytestreamStat synced = world.run(BytestreamOp::kSync).stat;
    world.crash();
    EXPECT_EQ(world.read(0, 60'000), filled(50'000, 1));
    EXPECT_EQ(world.run(BytestreamOp::kStat).stat.change_counter, synced.change_counter);
    EXPECT_EQ(world.run(BytestreamOp::kStat).stat.mtime, synced.mtime);
  }
}

/// The states of the pages of a file that was overwritten and not synced: old, new or torn between sectors.
struct PageFates {
  int old_pages = 0;
  int new_pages = 0;
  int torn_pages = 0;

  void count(ByteView content) {
    for (std::size_t page = 0; page < content.size(); page += SimFile::kPage) {
      int fresh = 0;
      for (std::size_t at = page; at < page + SimFile::kPage; at += SimFile::kSector) {
        const std::byte first = content[at];
        EXPECT_THAT(first, ::testing::AnyOf(std::byte{1}, std::byte{2}));
        EXPECT_TRUE(std::all_of(content.begin() + static_cast<std::ptrdiff_t>(at),
                                content.begin() + static_cast<std::ptrdiff_t>(at + SimFile::kSector),
                                [&](std::byte b) { return b == first; }))
            << "torn within a sector";
        fresh += first == std::byte{2} ? 1 : 0;
      }
      (fresh == 0 ? old_pages : fresh == 8 ? new_pages : torn_pages) += 1;
    }
  }
};

TEST(SimDisk, CrashTearsWhatWasNotSynced) {
  PageFates fates;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    World world(seed);
    world.write(0, filled(40'960, 1));
    world.run(BytestreamOp::kSync);
    const std::uint64_t counter = world.write(0, filled(40'960, 2)).stat.change_counter;
    world.crash();
    const Bytes content = world.read(0, 40'960);
    ASSERT_EQ(content.size(), 40'960U);
    fates.count(content);
    // If the content differs from what was seen, its counter must not be one that somebody knows.
    if (content != filled(40'960, 1)) EXPECT_GT(world.run(BytestreamOp::kStat).stat.change_counter, counter);
  }
  EXPECT_GT(fates.old_pages, 20);
  EXPECT_GT(fates.new_pages, 20);
  EXPECT_GT(fates.torn_pages, 20);
}

TEST(SimDisk, PagesThatAFailedSyncLosesAreNotWrittenByALaterSync) {
  constexpr std::size_t kBytes = 10 * SimFile::kPage;
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    World world(seed);
    world.write(0, filled(kBytes, 1));
    world.run(BytestreamOp::kSync);
    world.write(0, filled(kBytes, 2));
    world.disk.faults().inject(BytestreamOp::kSync, 1, Errc::kIoError);
    EXPECT_EQ(world.run(BytestreamOp::kSync).status, Errc::kIoError);
    EXPECT_EQ(world.disk.statistics().failed_syncs, 1U);
    EXPECT_EQ(world.read(0, kBytes), filled(kBytes, 2));  // from the page cache
    world.write(0, filled(1, 3));                         // its whole page is dirty again
    const BytestreamStat synced = world.run(BytestreamOp::kSync).stat;
    world.crash();
    const Bytes content = world.read(0, kBytes);
    EXPECT_EQ(content[0], std::byte{3});
    EXPECT_EQ(content[SimFile::kPage - 1], std::byte{2});
    const bool differs = std::find(content.begin() + 1, content.end(), std::byte{1}) != content.end();
    lost += differs ? 1 : 0;
    if (differs) EXPECT_GT(world.run(BytestreamOp::kStat).stat.change_counter, synced.change_counter);
  }
  EXPECT_GT(lost, 10);
}

TEST(SimDisk, CrashMayLoseNamesAndBringBackRemovedOnes) {
  int created = 0;
  int removed = 0;
  constexpr DatafileId kOther{Handle(2), 0};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    World world(seed);
    world.write(0, filled(10, 1));
    world.run(BytestreamOp::kSync);
    world.run(BytestreamOp::kRemove);
    world.write(0, filled(10, 2), kOther);
    world.crash();
    const std::vector<DatafileId> listed = world.store->list({}, 10).value();
    for (const DatafileId& id : listed) (id == kFile ? removed : created) += 1;
  }
  EXPECT_GT(created, 5);
  EXPECT_LT(created, 35);
  EXPECT_GT(removed, 5);
  EXPECT_LT(removed, 35);
}

TEST(SimDisk, SyncedRemovalIsForGood) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    World world(seed);
    world.write(0, filled(10, 1));
    world.run(BytestreamOp::kSync);
    world.run(BytestreamOp::kRemove);
    world.run(BytestreamOp::kSync);
    world.crash();
    EXPECT_THAT(world.store->list({}, 10).value(), testing::IsEmpty());
  }
}

TEST(SimDisk, FullDiskKeepsEarlierData) {
  SimDiskModel model;
  model.capacity_bytes = 10 * SimFile::kPage;
  World world(1, model);
  EXPECT_EQ(world.write(0, filled(8 * SimFile::kPage, 1)).status, Errc::kOk);
  EXPECT_EQ(world.write(100'000, filled(3 * SimFile::kPage, 2)).status, Errc::kNoSpace);
  EXPECT_EQ(world.read(0, 8 * SimFile::kPage), filled(8 * SimFile::kPage, 1));
  EXPECT_EQ(world.write(0, filled(8 * SimFile::kPage, 3)).status, Errc::kOk);
  EXPECT_EQ(world.run(BytestreamOp::kAllocate, {{0, 1U << 20U}}).status, Errc::kNoSpace);
  world.run(BytestreamOp::kRemove);
  EXPECT_EQ(world.store->space().value().free_bytes, model.capacity_bytes);
  EXPECT_EQ(world.write(0, filled(10 * SimFile::kPage, 1)).status, Errc::kOk);
}

TEST(SimDisk, InjectedErrorHitsTheNthOperation) {
  World world(1);
  world.write(0, filled(100, 1));
  world.disk.faults().inject(BytestreamOp::kRead, 2, Errc::kIoError);
  Bytes out(100);
  EXPECT_EQ(world.run(BytestreamOp::kRead, {{0, 100}}, {out}).status, Errc::kOk);
  EXPECT_EQ(world.run(BytestreamOp::kRead, {{0, 100}}, {out}).status, Errc::kIoError);
  EXPECT_EQ(world.run(BytestreamOp::kRead, {{0, 100}}, {out}).status, Errc::kOk);
}

TEST(SimDisk, TimeFollowsTheModel) {
  SimDiskModel model;
  model.page_cache = false;
  model.parallel = 2;
  model.write_latency = std::chrono::microseconds(100);
  model.bytes_per_second = 1'000'000'000;
  World world(1, model);
  Bytes data = filled(1'000'000, 1);
  for (int i = 0; i < 4; ++i) world.post_write(0, data);
  EXPECT_EQ(world.disk.next_event_time().since_start, std::chrono::microseconds(1100));
  std::array<BytestreamCompletion, 4> done;
  world.clock.set(world.disk.next_event_time());
  EXPECT_EQ(world.store->test(done), 1U);
  // The device's bandwidth is shared: four megabytes at one gigabyte a second.
  world.clock.set(MonoTime{std::chrono::microseconds(4099)});
  EXPECT_EQ(world.store->test(done), 2U);
  world.clock.set(MonoTime{std::chrono::microseconds(4500)});
  EXPECT_EQ(world.store->test(done), 1U);
}

TEST(SimDisk, DescriptorsReadThePresentContent) {
  World world(1);
  world.write(0, filled(100, 1));
  const std::shared_ptr<const OpenDatafile> file = world.run(BytestreamOp::kOpen).file;
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(world.disk.owns(file->descriptor()));
  world.write(50, filled(100, 2));
  world.run(BytestreamOp::kRemove);
  Bytes out(500);
  EXPECT_EQ(world.disk.read_file(file->descriptor(), 40, out).value(), 110U);
  EXPECT_EQ(out[9], std::byte{1});
  EXPECT_EQ(out[10], std::byte{2});
  EXPECT_ERRC(world.disk.read_file(file->descriptor() + 1, 0, out), Errc::kBadDescriptor);
  SimDisk other(world.clock, world.random, 4);
  EXPECT_FALSE(other.owns(file->descriptor()));
}

SimLentFile lent_copy(World& world) {
  const auto lent = world.run(BytestreamOp::kLend).file;
  const auto copy = world.disk.lending().pass(lent->descriptor());
  return *world.disk.lending().take_file(copy.value());
}

TEST(SimDisk, WritesOfALeaseHolderAreSeenUntilTheDatafileIsReplaced) {
  World world(20);
  EXPECT_EQ(world.run(BytestreamOp::kLend).status, Errc::kNotFound);
  world.write(0, Bytes(6000, std::byte{1}));
  const SimLentFile lent = lent_copy(world);
  EXPECT_EQ(world.disk.write_lent(lent, 5000, Bytes(2000, std::byte{2})).value(), 2000U);
  EXPECT_EQ(world.read(5000, 5000), Bytes(2000, std::byte{2}));
  EXPECT_EQ(world.run(BytestreamOp::kReplace).status, Errc::kOk);
  EXPECT_EQ(world.disk.write_lent(lent, 0, Bytes(20'000, std::byte{3})).value(), 20'000U);
  EXPECT_EQ(world.read(0, 100), Bytes(100, std::byte{1}));
  EXPECT_EQ(world.run(BytestreamOp::kStat).stat.size, 7000U);
  EXPECT_EQ(world.disk.space().total_bytes - world.disk.space().free_bytes, 2 * SimFile::kPage);
  world.crash();  // a replacement is durable
  EXPECT_EQ(world.read(5000, 5000), Bytes(2000, std::byte{2}));
}

TEST(SimDisk, ALeaseHoldersWriteFailsOnAFullDisk) {
  World world(21);
  world.write(0, Bytes(10, std::byte{1}));
  const SimLentFile lent = lent_copy(world);
  world.disk.set_capacity(2 * SimFile::kPage);
  EXPECT_EQ(world.disk.write_lent(lent, 0, Bytes(12'000, std::byte{2})).value(), 2 * SimFile::kPage);
  EXPECT_ERRC(world.disk.write_lent(lent, 2 * SimFile::kPage, Bytes(1)), Errc::kNoSpace);
}

TEST(SimDisk, ALeasePageSurvivesItsProcessButNotACrashOfTheMachine) {
  World world(22);
  auto page = world.store->make_lease({kFile, ClientId(7), 1, true}).value();
  const auto ended = world.store->make_lease({kFile, ClientId(8), 1, true}).value();
  const auto copy = world.disk.lending().pass(page->descriptor()->release()).value();
  const auto holder = world.disk.lending().take_page(copy);
  ASSERT_NE(holder, nullptr);
  EXPECT_EQ(world.disk.lending().take_page(copy), nullptr);
  page->words().state = LeaseWords::kRecalled;
  EXPECT_EQ(holder->words.state, LeaseWords::kRecalled);
  world.kill();
  page->words().state = LeaseWords::kFenced;  // of a dead process
  EXPECT_EQ(holder->words.state, LeaseWords::kRecalled);
  page.reset();
  world.start();
  {
    const auto left = world.store->left_leases().value();
    ASSERT_EQ(left.size(), 2U);
    EXPECT_EQ(left.front()->words().client, 7U);
    left.front()->words().state = LeaseWords::kFenced;
    EXPECT_EQ(holder->words.state, LeaseWords::kFenced);
    left.front()->keep();
  }
  EXPECT_EQ(world.store->left_leases().value().size(), 1U);
  world.crash();
  EXPECT_THAT(world.store->left_leases().value(), testing::IsEmpty());
}

}  // namespace
}  // namespace spate::trove
