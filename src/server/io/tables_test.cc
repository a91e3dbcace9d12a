// SPDX-License-Identifier: Apache-2.0
// The tables alone: bounds, eviction, the lock's order, how often MACs are computed.

#include <vector>

#include "base/expect.h"
#include "job/gate.h"
#include "server/io/capability_cache.h"
#include "server/io/client_table.h"
#include "server/io/datafile_table.h"

namespace spate::io {
namespace {

class OpenStub final : public trove::OpenDatafile {
 public:
  int descriptor() const override { return 3; }
};

DatafileKey key(std::uint64_t handle) { return {TargetId(1), {Handle(handle), 0}}; }

class TablesTest : public ::testing::Test {
 protected:
  void turn() {
    while (executor_.step()) {
    }
  }
  ManualClock clock_;
  job::Executor executor_{clock_};
  job::Gate gate_{executor_};
};

TEST_F(TablesTest, UnusedDatafilesAreDroppedOldestFirst) {
  DatafileTable table(executor_, 3, 10);
  const DatafileTable::Use in_use = table.use(key(1));
  in_use->layout_generation = 7;
  for (std::uint64_t handle = 2; handle <= 10; ++handle) table.use(key(handle))->layout_generation = 5;
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table.use(key(1))->layout_generation, 7U);
  EXPECT_EQ(table.use(key(10))->layout_generation, 5U);
  EXPECT_EQ(table.use(key(2))->layout_generation, 0U);  // it was dropped
}

TEST_F(TablesTest, ATableThatWasCrowdedShrinksWhenItsDatafilesAreReleased) {
  constexpr std::size_t kMaxEntries = 100;
  DatafileTable table(executor_, kMaxEntries, 10);
  std::vector<DatafileTable::Use> uses;
  for (std::uint64_t handle = 1; uses.size() < kMaxEntries + DatafileTable::kMaxInUse; ++handle) {
    uses.push_back(table.use(key(handle)));
  }
  EXPECT_TRUE(table.crowded()) << table.size() << " datafiles";
  uses.clear();
  EXPECT_FALSE(table.crowded()) << table.size() << " datafiles";
  EXPECT_LE(table.size(), kMaxEntries);
}

TEST_F(TablesTest, DatafilesInUseForLongDoNotKeepOthersFromBeingDropped) {
  DatafileTable table(executor_, 200, 10);
  std::vector<DatafileTable::Use> long_used;
  for (std::uint64_t handle = 1; handle <= 100; ++handle) long_used.push_back(table.use(key(handle)));
  for (std::uint64_t handle = 101; handle <= 1000; ++handle) table.use(key(handle))->layout_generation = 5;
  EXPECT_EQ(table.size(), 200U);
  EXPECT_EQ(table.use(key(1000))->layout_generation, 5U);
}

TEST_F(TablesTest, DescriptorsAreBoundedAndTheHotOnesStay) {
  DatafileTable table(executor_, 100, 2);
  std::vector<DatafileTable::Use> uses;
  for (std::uint64_t handle = 1; handle <= 3; ++handle) {
    uses.push_back(table.use(key(handle)));
    table.keep_open(*uses.back(), std::make_shared<OpenStub>());
    std::ignore = table.file(*uses.front());  // the first one is hot
  }
  EXPECT_EQ(table.open_count(), 2U);
  EXPECT_NE(table.file(*uses[0]), nullptr);
  EXPECT_EQ(table.file(*uses[1]), nullptr);
  EXPECT_NE(table.file(*uses[2]), nullptr);
  table.close(*uses[0]);
  EXPECT_EQ(table.file(*uses[0]), nullptr);
  EXPECT_EQ(table.open_count(), 1U);
}

/// Takes the lock, records that, and holds it until told to end.
struct Locker {
  explicit Locker(job::Executor& executor) : leave(executor) {}
  job::Event leave;
  job::StopSource stop;
  bool has = false;
  Errc outcome = Errc::kOk;
};

::testing::AssertionResult has_lock(const Locker& locker) {
  return ::testing::AssertionResult(locker.has) << (locker.has ? "it has the lock" : "it does not have the lock")
                                                << "; its last request: " << name(locker.outcome);
}

job::Task<void> lock(DatafileLock& lock, bool exclusive, Locker& locker) {
  if (exclusive) {
    auto hold = co_await lock.exclusive(locker.stop);
    locker.outcome = hold.code();
    locker.has = hold.has_value();
    if (hold) std::ignore = co_await locker.leave.wait();
  } else {
    auto hold = co_await lock.shared(locker.stop);
    locker.outcome = hold.code();
    locker.has = hold.has_value();
    if (hold) std::ignore = co_await locker.leave.wait();
  }
  locker.has = false;
}

TEST_F(TablesTest, SharedHoldersRunTogetherAndExclusiveHoldersAloneInOrderOfArrival) {
  DatafileLock datafile(executor_);
  Locker a(executor_), b(executor_), cut(executor_), c(executor_);
  job::spawn(gate_, lock(datafile, false, a));
  job::spawn(gate_, lock(datafile, false, b));
  job::spawn(gate_, lock(datafile, true, cut));
  job::spawn(gate_, lock(datafile, false, c));
  EXPECT_TRUE(has_lock(a));
  EXPECT_TRUE(has_lock(b));
  EXPECT_FALSE(has_lock(cut));
  EXPECT_FALSE(has_lock(c));
  a.leave.set();
  turn();
  EXPECT_FALSE(has_lock(cut));
  b.leave.set();
  turn();
  EXPECT_TRUE(has_lock(cut));
  EXPECT_FALSE(has_lock(c));
  cut.leave.set();
  turn();
  EXPECT_TRUE(has_lock(c));
  c.leave.set();
  turn();
  EXPECT_TRUE(datafile.idle()) << "somebody holds the lock or waits for it";
}

TEST_F(TablesTest, AStoppedExclusiveRequestLetsTheNextOnesRun) {
  DatafileLock datafile(executor_);
  Locker a(executor_), cut(executor_), c(executor_);
  job::spawn(gate_, lock(datafile, false, a));
  job::spawn(gate_, lock(datafile, true, cut));
  job::spawn(gate_, lock(datafile, false, c));
  EXPECT_FALSE(has_lock(c));
  cut.stop.request_stop(Errc::kTimeout);
  turn();
  EXPECT_EQ(cut.outcome, Errc::kTimeout);
  EXPECT_TRUE(has_lock(c));
  a.leave.set();
  c.leave.set();
  turn();
}

/// Takes a direct hold, turns it into a shared one, and holds it until told to end.
job::Task<void> lock_direct_then_shared(DatafileLock& lock, job::Event& blocks_done, Locker& locker) {
  auto hold = co_await lock.direct(locker.stop);
  if (!hold) co_return;
  std::ignore = co_await blocks_done.wait();
  auto converted = co_await lock.to_shared(*hold, locker.stop);
  locker.outcome = converted.code();
  locker.has = converted.has_value();
  if (converted) std::ignore = co_await locker.leave.wait();
  locker.has = false;
}

TEST_F(TablesTest, NobodyGetsTheLockWhileADirectHoldBecomesShared) {
  DatafileLock datafile(executor_);
  job::Event a_blocks(executor_), b_blocks(executor_);
  Locker a(executor_), b(executor_), cut(executor_), late(executor_);
  job::spawn(gate_, lock_direct_then_shared(datafile, a_blocks, a));
  job::spawn(gate_, lock_direct_then_shared(datafile, b_blocks, b));
  job::spawn(gate_, lock(datafile, true, cut));
  a_blocks.set();
  turn();
  EXPECT_FALSE(has_lock(a)) << "b still writes past the page cache";
  b_blocks.set();
  turn();
  EXPECT_TRUE(has_lock(a));
  EXPECT_TRUE(has_lock(b));
  EXPECT_FALSE(has_lock(cut));
  a.leave.set();
  turn();
  EXPECT_FALSE(has_lock(cut));
  b.leave.set();
  turn();
  EXPECT_TRUE(has_lock(cut));
  cut.leave.set();
  turn();
  EXPECT_TRUE(datafile.idle()) << "somebody holds the lock or waits for it";
}

TEST_F(TablesTest, AStoppedConversionReleasesItsHold) {
  DatafileLock datafile(executor_);
  job::Event a_blocks(executor_), b_blocks(executor_);
  Locker a(executor_), b(executor_), cut(executor_);
  job::spawn(gate_, lock_direct_then_shared(datafile, a_blocks, a));
  job::spawn(gate_, lock_direct_then_shared(datafile, b_blocks, b));
  job::spawn(gate_, lock(datafile, true, cut));
  a_blocks.set();
  turn();
  a.stop.request_stop(Errc::kTimeout);
  turn();
  EXPECT_EQ(a.outcome, Errc::kTimeout);
  b_blocks.set();
  turn();
  EXPECT_TRUE(has_lock(b)) << "nobody else writes past the page cache any more";
  EXPECT_FALSE(has_lock(cut));
  b.leave.set();
  turn();
  EXPECT_TRUE(has_lock(cut));
  cut.leave.set();
  turn();
  EXPECT_TRUE(datafile.idle()) << "somebody holds the lock or waits for it";
}

TEST_F(TablesTest, ClientsWithRequestsUnderWayAreNotDropped) {
  ClientTable table(executor_, 2);
  ClientTable::Entry& busy = table.add(ClientId(1));
  {
    const ActiveRequest active(&busy, 1, 1, {});
    for (std::uint64_t id = 2; id <= 9; ++id) table.add(ClientId(id));
    EXPECT_EQ(table.size(), 2U);
    EXPECT_EQ(table.find(ClientId(1)), &busy);
    EXPECT_NE(table.find(ClientId(9)), nullptr);
    EXPECT_EQ(table.find(ClientId(8)), nullptr);
  }
  for (std::uint64_t id = 20; id <= 22; ++id) table.add(ClientId(id));
  EXPECT_EQ(table.find(ClientId(1)), nullptr);
}

TEST_F(TablesTest, ACapabilityIsHashedOnceAndTheTableIsBounded) {
  Key server_key{};
  server_key.fill(std::byte{3});
  CapabilityCache cache(server_key, FsId(5), 100);
  const auto signed_for = [&](std::uint64_t handle) {
    Capability capability;
    capability.handle = Handle(handle);
    capability.mac = sign(server_key, FsId(5), capability);
    return capability;
  };
  const Capability hot = signed_for(1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(cache.genuine(hot)) << "the capability that is used all the time";
  EXPECT_EQ(cache.verifications(), 1U);
  EXPECT_EQ(cache.size(), 1U);
  Capability forged = hot;
  forged.rights = Rights::kReadWrite;
  EXPECT_FALSE(cache.genuine(forged)) << "a forged capability";
  for (std::uint64_t handle = 2; handle < 1000; ++handle) {
    EXPECT_TRUE(cache.genuine(signed_for(handle))) << "the capability for file " << handle;
    const std::size_t before = cache.size();
    EXPECT_TRUE(cache.genuine(hot));
    EXPECT_LE(cache.size(), before) << "the hot one was still there";
    EXPECT_LE(cache.size(), 102U);
  }
  EXPECT_EQ(cache.verifications(), 999U);  // the hot one stayed all the time
}

}  // namespace
}  // namespace spate::io
