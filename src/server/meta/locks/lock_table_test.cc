// SPDX-License-Identifier: Apache-2.0
#include "server/meta/locks/lock_table.h"

#include <gmock/gmock.h>

#include <optional>

#include "base/expect.h"

namespace spate::meta {
namespace {

constexpr Handle kLockedFile{7};
constexpr Handle kOther{8};

LockOwner process(std::uint64_t token, std::uint64_t client = 1) {
  return {ClientId(client), 1, LockKind::kProcess, token};
}

LockParams params(const LockOwner& owner, LockMode mode, std::uint64_t first = 0,
                  std::uint64_t last = LockRange::kToEnd) {
  return {kLockedFile, owner, mode, {first, last}, static_cast<std::uint32_t>(owner.token)};
}
LockParams params_of_other(const LockOwner& owner, LockMode mode) {
  LockParams w = params(owner, mode);
  w.handle = kOther;
  return w;
}

constexpr LockMode kFree = LockMode::kNone;
constexpr LockMode kShared = LockMode::kShared;
constexpr LockMode kExclusive = LockMode::kExclusive;

class LockTableTest : public ::testing::Test {
 protected:
  /// Numbers of the waits granted since the last call.
  std::vector<std::uint64_t> granted() {
    std::vector<std::uint64_t> numbers;
    for (const LockTable::Ended& ended : table.take_ended()) {
      EXPECT_TRUE(ended.granted) << "the wait ended without the lock";
      numbers.push_back(ended.wait.number);
    }
    return numbers;
  }
  using Numbers = std::vector<std::uint64_t>;
  LockTable table;
};

TEST_F(LockTableTest, AConflictIsRefusedAndItsHolderNamed) {
  EXPECT_EQ(table.set(params(process(1), kShared, 0, 99), 0), LockOutcome::kGranted);
  EXPECT_EQ(table.set(params(process(2), kShared, 50, 149), 0), LockOutcome::kGranted);
  EXPECT_EQ(table.set(params(process(2), kExclusive, 0, 9), 0), LockOutcome::kConflict);
  EXPECT_EQ(table.set(params(process(2), kExclusive, 100, 149), 0), LockOutcome::kGranted);
  const auto found = table.test(params(process(3), kExclusive, 60, 70));
  ASSERT_NE(found, std::nullopt);
  EXPECT_EQ(found->owner, process(1));
  EXPECT_EQ(found->pid, 1U);
  EXPECT_EQ(found->lock, (HeldLock{{0, 99}, kShared}));
  EXPECT_EQ(table.test(params(process(3), kShared, 0, 99)), std::nullopt);
  EXPECT_EQ(table.test(params(process(2), kExclusive, 100, LockRange::kToEnd)), std::nullopt);
}

TEST_F(LockTableTest, RecordLocksAndFlockAreIndependent) {
  const LockOwner flock{ClientId(1), 1, LockKind::kFlock, 1};
  const LockOwner open_file{ClientId(1), 1, LockKind::kOpenFile, 1};
  EXPECT_EQ(table.set(params(process(1), kExclusive), 0), LockOutcome::kGranted);
  EXPECT_EQ(table.set(params(flock, kExclusive), 0), LockOutcome::kGranted);
  EXPECT_EQ(table.set(params(open_file, kShared), 0), LockOutcome::kConflict);
}

TEST_F(LockTableTest, WaitsAreServedInOrder) {
  table.set(params(process(1), kExclusive), 0);
  EXPECT_EQ(table.set(params(process(2), kShared), 12), LockOutcome::kQueued);
  EXPECT_EQ(table.set(params(process(3), kExclusive), 13), LockOutcome::kQueued);
  EXPECT_EQ(table.set(params(process(4), kShared), 14), LockOutcome::kQueued);
  table.set(params(process(1), kFree), 0);
  EXPECT_EQ(granted(), Numbers{12});  // 4 would be compatible, but must not overtake 3
  table.release(kLockedFile, process(2));
  EXPECT_EQ(granted(), Numbers{13});
  table.release(kLockedFile, process(3));
  EXPECT_EQ(granted(), Numbers{14});
}

TEST_F(LockTableTest, AHolderOvertakesTheWaitsForItsLock) {
  table.set(params(process(1), kShared, 0, 9), 0);
  EXPECT_EQ(table.set(params(process(2), kExclusive), 12), LockOutcome::kQueued);
  EXPECT_EQ(table.set(params(process(1), kShared, 20, 29), 11),
            LockOutcome::kGranted);  // otherwise both would wait for ever
  table.release(kLockedFile, process(1));
  EXPECT_EQ(granted(), Numbers{12});
}

TEST_F(LockTableTest, AnUpgradeToExclusiveWaitsForOtherReaders) {
  table.set(params(process(1), kShared), 0);
  table.set(params(process(2), kShared), 0);
  EXPECT_EQ(table.set(params(process(1), kExclusive), 11), LockOutcome::kQueued);
  EXPECT_EQ(table.set(params(process(2), kExclusive), 12), LockOutcome::kDeadlock);
  table.set(params(process(2), kFree), 0);
  EXPECT_EQ(granted(), Numbers{11});
  EXPECT_NE(table.test(params(process(2), kShared)), std::nullopt);
}

TEST_F(LockTableTest, DeadlocksAreFoundAcrossFiles) {
  table.set(params(process(1), kExclusive), 0);
  table.set(params_of_other(process(2, 2), kExclusive), 0);
  EXPECT_EQ(table.set(params_of_other(process(1), kExclusive), 5), LockOutcome::kQueued);
  EXPECT_EQ(table.set(params(process(2, 2), kShared), 5), LockOutcome::kDeadlock);
  EXPECT_EQ(table.set(params(process(3), kShared), 6), LockOutcome::kQueued);  // it waits, but nobody waits for it
}

TEST_F(LockTableTest, AFlockThatCannotBeUpgradedLosesItsLock) {
  const LockOwner a{ClientId(1), 1, LockKind::kFlock, 1};
  const LockOwner b{ClientId(1), 1, LockKind::kFlock, 2};
  table.set(params(a, kShared), 0);
  table.set(params(b, kShared), 0);
  EXPECT_EQ(table.set(params(a, kExclusive), 11), LockOutcome::kQueued);
  EXPECT_EQ(table.set(params(b, kExclusive), 12), LockOutcome::kGranted);  // no deadlock: a has lost its own lock
  EXPECT_EQ(table.set(params(b, kShared), 0), LockOutcome::kGranted);
  table.set(params(b, kFree), 0);
  EXPECT_EQ(granted(), Numbers{11});
}

TEST_F(LockTableTest, ADowngradeLetsOthersIn) {
  table.set(params(process(1), kExclusive, 0, 9), 0);
  table.set(params(process(2), kExclusive, 10, 19), 0);
  EXPECT_EQ(table.set(params(process(3), kShared, 0, 9), 13), LockOutcome::kQueued);
  EXPECT_EQ(table.set(params(process(1), kShared, 0, 19), 11), LockOutcome::kQueued);
  table.set(params(process(2), kFree), 0);
  EXPECT_EQ(granted(), (Numbers{11, 13}));
}

TEST_F(LockTableTest, ACancelledWaitDelaysNobody) {
  table.set(params(process(1), kShared), 0);
  table.set(params(process(2), kExclusive), 12);
  table.set(params(process(3), kShared), 13);
  EXPECT_TRUE(table.cancel({ClientId(1), 1, 12}));
  EXPECT_FALSE(table.cancel({ClientId(1), 1, 12}));
  EXPECT_EQ(granted(), Numbers{13});
}

TEST_F(LockTableTest, ASessionsOlderEpochsAreReleasedWithTheirWaits) {
  LockOwner old = process(1);
  LockOwner fresh = old;
  fresh.epoch = 2;
  table.set(params(old, kExclusive), 0);
  EXPECT_EQ(table.set(params(fresh, kShared), 0), LockOutcome::kConflict);
  EXPECT_EQ(table.set(params(fresh, kShared), 11), LockOutcome::kQueued);
  table.set(params_of_other(process(9, 2), kExclusive), 0);
  EXPECT_EQ(table.set(params_of_other(old, kShared), 12), LockOutcome::kQueued);
  table.release_client(ClientId(1), 2);
  EXPECT_EQ(granted(), Numbers{11});
  EXPECT_EQ(table.waits(), 0U);
  EXPECT_EQ(table.pieces(), 2U);
  table.release_client(ClientId(1), 3);
  EXPECT_FALSE(table.holds_any(ClientId(1)));
}

TEST_F(LockTableTest, IsBounded) {
  LockTable small({4, 5, 2, 3});
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(small.set(params(process(1), kShared, 10 * i, 10 * i + 5), 0), LockOutcome::kGranted);
  }
  EXPECT_EQ(small.set(params(process(1), kShared, 50, 55), 0), LockOutcome::kTooMany);
  EXPECT_EQ(small.set(params(process(1), kFree, 2, 3), 0), LockOutcome::kTooMany);  // it would split a lock
  EXPECT_EQ(small.set(params(process(1), kShared, 0, 25), 0), LockOutcome::kGranted);
  EXPECT_EQ(small.set(params(process(1), kFree), 0), LockOutcome::kGranted);
  EXPECT_EQ(small.pieces(), 0U);
  small.set(params(process(1), kExclusive), 0);
  EXPECT_EQ(small.set(params(process(2), kShared), 1), LockOutcome::kQueued);
  EXPECT_EQ(small.set(params(process(3), kShared), 2), LockOutcome::kQueued);
  EXPECT_EQ(small.set(params(process(4), kShared), 3), LockOutcome::kTooMany);
  EXPECT_EQ(small.set(params(process(5, 2), kShared), 1), LockOutcome::kQueued);
  EXPECT_EQ(small.set(params(process(6, 3), kShared), 1), LockOutcome::kTooMany);
}

TEST_F(LockTableTest, AnAppendRightIsRecalledOnceForEachHolder) {
  const LockOwner a{ClientId(1), 1, LockKind::kAppend, 0};
  const LockOwner b{ClientId(2), 1, LockKind::kAppend, 0};
  const LockOwner c{ClientId(3), 1, LockKind::kAppend, 0};
  table.set(params(a, kExclusive), 1);
  EXPECT_THAT(table.take_recalls(), testing::IsEmpty());
  table.set(params(b, kExclusive), 2);
  table.set(params(c, kExclusive), 3);
  auto recalls = table.take_recalls();
  ASSERT_EQ(recalls.size(), 1U);
  EXPECT_EQ(recalls[0].owner, a);
  EXPECT_EQ(recalls[0].handle, kLockedFile);
  table.release(kLockedFile, a);
  recalls = table.take_recalls();
  ASSERT_EQ(recalls.size(), 1U);  // c still waits
  EXPECT_EQ(recalls[0].owner, b);
  table.release(kLockedFile, b);
  EXPECT_THAT(table.take_recalls(), testing::IsEmpty());
}

}  // namespace
}  // namespace spate::meta
