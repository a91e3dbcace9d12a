// SPDX-License-Identifier: Apache-2.0
// Leases whose holders do what a test says: which of their writes are noted, whose leases end, and that no lease is
// granted between the search for leases and the locking of the datafile.

#include <optional>

#include "base/expect.h"
#include "bmi/sim/fabric.h"
#include "job/gate.h"
#include "server/io/parts.h"
#include "server/io/target.h"
#include "trove/fault/faulty_bytestreams.h"
#include "trove/kvmem/memory_keyval.h"
#include "trove/mem/mem_store.h"

namespace spate::io {
namespace {

constexpr ClientId kHolder{100};
const DatafileKey kDatafile{TargetId(256), {Handle(42), 0}};

/// The page of a lease. The test reads it as the holder does, even after the end of the lease.
class HolderPage final : public trove::LeasePage {
 public:
  HolderPage(DatafileId datafile, std::shared_ptr<LeaseWords> words)
      : LeasePage(datafile, true), words_(std::move(words)) {}
  LeaseWords& words() const override { return *words_; }
  Result<UniqueFd> descriptor() const override { return Errc::kNotSupported; }
  void keep() override {}

 private:
  const std::shared_ptr<LeaseWords> words_;
};

class LeasesTest : public ::testing::Test {
 protected:
  LeasesTest()
      : network_(networks_of(bmi::sim::attach(fabric_, 1))),
        streams_(std::make_unique<trove::MemBytestreams>(std::make_shared<trove::MemStore>(1U << 20U)), {}, clock_),
        parts_({}, {IoTarget{kDatafile.target, storage_, 1}}, keyval_, context_, metrics_) {
    const Bytes data(100, std::byte{'x'});
    const Extent extent{0, data.size()};
    const MutableByteView memory(const_cast<std::byte*>(data.data()), data.size());
    trove::BytestreamRequest request;
    request.op = trove::BytestreamOp::kWrite;
    request.id = kDatafile.id;
    request.extents = {&extent, 1};
    request.memory = {&memory, 1};
    EXPECT_OK(run(run_op(parts_.targets.front(), ClientId(), request, {})));
  }

  static std::unique_ptr<bmi::Network> networks_of(std::unique_ptr<bmi::Module> module) {
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(std::move(module));
    return bmi::make_network(std::move(modules), {});
  }

  void turn(Duration span = {}) {
    clock_.advance(span);
    while (executor_.step()) {
    }
  }
  template <typename T>
  std::shared_ptr<std::optional<T>> begin(job::Task<T> task) {
    auto out = std::make_shared<std::optional<T>>();
    const auto into = [](job::Task<T> inner, std::shared_ptr<std::optional<T>> result) -> job::Task<void> {
      *result = co_await std::move(inner);
    };
    job::spawn(gate_, into(std::move(task), out));
    turn();
    return out;
  }
  template <typename T>
  T run(job::Task<T> task) {
    const auto out = begin(std::move(task));
    for (int i = 0; i < 1000 && !*out; ++i) turn(std::chrono::milliseconds(1));
    SPATE_CHECK(out->has_value());  // otherwise it hangs
    return *std::move(*out);
  }

  /// Grants a lease for writing.
  std::shared_ptr<LeaseWords> lend(ClientId client = kHolder, std::uint32_t epoch = 1,
                                   const DatafileKey& key = kDatafile) {
    auto words = std::make_shared<LeaseWords>();
    BypassLease lease;
    lease.client = client;
    lease.epoch = epoch;
    lease.expiry = WallTime{parts_.now().ns + Duration(std::chrono::hours(1)).count()};
    lease.key = key;
    lease.target = &parts_.targets.front();
    lease.page = std::make_unique<HolderPage>(key.id, words);
    parts_.leases.add(std::move(lease));
    return words;
  }
  static void end_write(LeaseWords& words) {
    words.writes.fetch_add(1);
    EXPECT_TRUE(words.end());
  }
  std::uint64_t change_counter() {
    return run(stat_datafile(parts_.targets.front(), ClientId(), kDatafile.id, {})).value().change_counter;
  }
  /// Makes fences fail. A holder with a write in flight can be fenced only by moving its datafile, which needs space.
  void refuse_copies() {
    for (std::uint64_t nth = 1; nth <= 10; ++nth) {
      trove::BytestreamFault full;
      full.op = trove::BytestreamOp::kReplace;
      full.nth = nth;
      full.status = Errc::kNoSpace;
      streams_.add(full);
    }
  }
  /// Notes the holders' changes, as a stat does first. Returns whether the change counter has moved.
  bool noted() {
    const std::uint64_t before = change_counter();
    EXPECT_OK(run(parts_.leases.note(kDatafile, {})));
    return change_counter() > before;
  }

  ManualClock clock_;
  SeededRandom random_{1};
  bmi::sim::Fabric fabric_{clock_, random_, {}};
  job::Executor executor_{clock_};
  job::Gate gate_{executor_};
  metrics::Registry metrics_;
  std::unique_ptr<bmi::Network> network_;
  job::NetworkContext context_{*network_, executor_};
  std::unique_ptr<trove::Keyval> store_ = trove::make_memory_keyval();
  job::KeyvalContext keyval_{*store_, executor_};
  trove::FaultyBytestreams streams_;
  job::StorageContext storage_{streams_, executor_};
  Parts parts_;
};

TEST_F(LeasesTest, EachWriteOfAHolderIsNotedOnce) {
  const auto holder = lend();
  EXPECT_FALSE(noted());
  ASSERT_TRUE(holder->begin());
  end_write(*holder);
  EXPECT_TRUE(noted());
  EXPECT_FALSE(noted());
}

TEST_F(LeasesTest, GapsAreNotRewrittenWhileAClientWritesByItself) {
  const DatafileTable::Use datafile = parts_.datafiles.use(kDatafile);
  {
    const GapWriter before(parts_.leases, *datafile);
    EXPECT_TRUE(before.alone());
    EXPECT_EQ(datafile->gap_writers, 1U);
  }
  EXPECT_EQ(datafile->gap_writers, 0U);
  lend();
  const GapWriter after(parts_.leases, *datafile);
  EXPECT_FALSE(after.alone());
  EXPECT_EQ(datafile->gap_writers, 0U);
}

/// Others may have read the bytes written so far. A client that keeps data by the counter must not mix bytes from
/// before and after.
TEST_F(LeasesTest, AWriteUnderWayMovesTheCounterAtEachCheck) {
  const auto holder = lend();
  ASSERT_TRUE(holder->begin());
  EXPECT_TRUE(noted());
  EXPECT_TRUE(noted());
  end_write(*holder);
  EXPECT_TRUE(noted());
  EXPECT_FALSE(noted());
}

TEST_F(LeasesTest, AWriteThatEndsWhileOthersAreNotedIsNotedLater) {
  const auto holder = lend();
  ASSERT_TRUE(holder->begin());
  trove::BytestreamFault slow;
  slow.op = trove::BytestreamOp::kNoteChange;
  slow.kind = trove::BytestreamFault::Kind::kDelay;
  slow.delay = std::chrono::milliseconds(5);
  streams_.add(slow);
  const auto noting = begin(parts_.leases.note(kDatafile, {}));
  ASSERT_EQ(*noting, std::nullopt);
  end_write(*holder);
  for (int i = 0; i < 10 && !*noting; ++i) turn(std::chrono::milliseconds(1));
  ASSERT_NE(*noting, std::nullopt);
  EXPECT_TRUE(noted());
  EXPECT_FALSE(noted());
}

/// A fence may be repeated or late. Then the client may be back in a later epoch.
TEST_F(LeasesTest, TheEndOfASessionEndsItsLeasesAndNoLaterOnes) {
  const auto first = lend(kHolder, 1), second = lend(kHolder, 2), third = lend(kHolder, 3);
  const auto others = lend(ClientId(200), 1);
  ASSERT_OK(run(parts_.leases.end_client(kHolder, 2, {})));
  EXPECT_FALSE(first->begin());
  EXPECT_EQ(parts_.leases.size(), 3U);
  for (const auto& left : {second, third, others}) {
    EXPECT_TRUE(left->begin());
    EXPECT_TRUE(left->end());
  }
  ASSERT_OK(run(parts_.leases.end_client(kHolder, 4, {})));
  EXPECT_FALSE(second->begin());
  EXPECT_FALSE(third->begin());
  EXPECT_TRUE(others->begin());
  EXPECT_TRUE(others->end());
  EXPECT_EQ(parts_.leases.size(), 1U);
}

TEST_F(LeasesTest, TheLeasesOfARemovedDatafileEndWithoutACopy) {
  refuse_copies();
  const auto holder = lend();
  const auto another = lend(ClientId(200), 1, {kDatafile.target, {Handle(43), 0}});
  ASSERT_TRUE(holder->begin());
  parts_.leases.abandon(kDatafile);
  EXPECT_EQ(parts_.leases.size(), 1U);
  const DatafileTable::Use datafile = parts_.datafiles.use(kDatafile);
  const auto locked = begin(parts_.leases.lock(*datafile, DatafileLock::Mode::kExclusive, ClientId(), {}));
  ASSERT_NE(*locked, std::nullopt) << "it waits for the holder";
  EXPECT_OK(**locked);
  EXPECT_FALSE(holder->end()) << "the holder must learn that its write had no effect";
  EXPECT_FALSE(holder->begin());
  EXPECT_TRUE(another->begin());
  EXPECT_TRUE(another->end());
}

TEST_F(LeasesTest, AHolderThatCannotBeFencedKeepsNoOtherLease) {
  refuse_copies();
  const auto silent = lend(kHolder, 1);
  const auto other = lend(kHolder, 1, {kDatafile.target, {Handle(43), 0}});
  ASSERT_TRUE(silent->begin());
  const auto ending = begin(parts_.leases.end_client(kHolder, 2, {}));
  for (int i = 0; i < 10 && !*ending; ++i) turn(std::chrono::seconds(1));
  ASSERT_NE(*ending, std::nullopt);
  EXPECT_ERRC(**ending, Errc::kNoSpace);
  EXPECT_FALSE(other->begin());
  EXPECT_EQ(parts_.leases.size(), 1U);
  const auto again = begin(parts_.leases.end_client(kHolder, 2, {}));
  ASSERT_NE(*again, std::nullopt) << "it has waited for the holder before";
  EXPECT_ERRC(**again, Errc::kNoSpace);
  EXPECT_GT(silent->busy.load(), 0U);
}

/// A truncation or removal waits for the lock. Meanwhile the lock's owner grants a lease.
TEST_F(LeasesTest, ALeaseThatWasGrantedDuringTheWaitForTheLockIsRecalledToo) {
  for (const auto mode : {DatafileLock::Mode::kExclusive, DatafileLock::Mode::kDirect}) {
    const DatafileTable::Use datafile = parts_.datafiles.use(kDatafile);
    auto locking = [&] {
      auto granting = run([](DatafileLock& lock) -> job::Task<Result<DatafileLock::Hold>> {
        auto taken = co_await lock.shared({});
        co_return std::move(taken);
      }(datafile->lock));
      auto waits = begin(parts_.leases.lock(*datafile, mode, kHolder, {}));
      EXPECT_EQ(*waits, std::nullopt);
      return std::pair(std::move(waits), lend());
    }();  // releases the lock
    auto& [taken, holder] = locking;
    ASSERT_TRUE(holder->begin());
    turn(std::chrono::milliseconds(10));
    EXPECT_EQ(*taken, std::nullopt) << "beside a holder at work";
    EXPECT_EQ(holder->state.load(), LeaseWords::kRecalled);
    end_write(*holder);
    for (int i = 0; i < 100 && !*taken; ++i) turn(std::chrono::milliseconds(1));
    ASSERT_OK(*taken);
    EXPECT_EQ(parts_.leases.size(), 0U);
  }
}

}  // namespace
}  // namespace spate::io
