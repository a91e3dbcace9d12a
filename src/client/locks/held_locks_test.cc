// SPDX-License-Identifier: Apache-2.0
#include "client/locks/held_locks.h"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "base/expect.h"
#include "base/unique_fd.h"

namespace spate::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Handle kFile(7);
constexpr Handle kOther(8);
constexpr LockHolder kOne{LockKind::kProcess, 1};
constexpr LockHolder kTwo{LockKind::kProcess, 2};

wire::LockSpec lock_of(Handle handle, const LockHolder& holder, LockMode mode, LockRange range = {}) {
  return {handle, holder.kind, holder.number, 12, mode, range.first, range.last};
}
wire::LockSpec append_right(Handle handle) { return lock_of(handle, {LockKind::kAppend, 0}, LockMode::kExclusive); }

class HeldLocksTest : public testing::Test {
 protected:
  void set(Handle handle, const LockHolder& holder, LockMode mode, LockRange range = {}) {
    locks_.set(lock_of(handle, holder, mode, range), nullptr);
  }
  /// Number of the pieces that the owner has; 0 if it has no locks.
  std::size_t pieces(Handle handle, const LockHolder& holder) {
    const auto* held = locks_.find(handle, holder);
    return held == nullptr ? 0 : held->ranges.pieces().size();
  }

  HeldLocks locks_;
};

TEST_F(HeldLocksTest, EachOwnerHasItsOwnRangesOfEachFile) {
  set(kFile, kOne, LockMode::kShared, {0, 9});
  set(kFile, kTwo, LockMode::kShared, {0, 9});
  set(kFile, kOne, LockMode::kExclusive, {3, 5});
  EXPECT_EQ(pieces(kFile, kOne), 3U);
  EXPECT_EQ(pieces(kFile, kTwo), 1U);
  EXPECT_EQ(locks_.find(kOther, kOne), nullptr);
  EXPECT_EQ(locks_.files(), 1U);
}

TEST_F(HeldLocksTest, AnOwnerWithoutRangesIsForgotten) {
  set(kFile, kOne, LockMode::kShared, {0, 9});
  set(kFile, kTwo, LockMode::kShared);
  set(kFile, kOne, LockMode::kNone, {0, 4});
  EXPECT_EQ(pieces(kFile, kOne), 1U);
  set(kFile, kOne, LockMode::kNone, {5, 9});
  EXPECT_EQ(locks_.find(kFile, kOne), nullptr);
  EXPECT_EQ(locks_.files(), 1U);
  set(kFile, kTwo, LockMode::kNone);
  EXPECT_EQ(locks_.files(), 0U);
}

TEST_F(HeldLocksTest, ALostLockStaysUntilItsOwnerReleasesIt) {
  set(kFile, kOne, LockMode::kExclusive);
  set(kFile, kTwo, LockMode::kShared);
  EXPECT_TRUE(locks_.lose(kFile, kOne)) << "it has a lock";
  EXPECT_FALSE(locks_.lose(kOther, kOne)) << "it has no lock on this file";
  EXPECT_TRUE(locks_.any_lost(kFile)) << "the lock of the first owner";
  EXPECT_FALSE(locks_.any_lost(kOther)) << "a file without locks";
  ASSERT_THAT(locks_.all_valid(), SizeIs(1));
  EXPECT_EQ(locks_.all_valid()[0].owner, kTwo.number);
  set(kFile, kOne, LockMode::kShared, {0, 9});
  EXPECT_TRUE(locks_.any_lost(kFile)) << "another request of the owner does not bring the lock back";
  set(kFile, kOne, LockMode::kNone);
  EXPECT_FALSE(locks_.any_lost(kFile)) << "its owner has released it";
}

TEST_F(HeldLocksTest, AllLocksAreLostWithTheSession) {
  EXPECT_FALSE(locks_.any_valid()) << "no locks";
  set(kFile, kOne, LockMode::kShared);
  set(kOther, kTwo, LockMode::kShared);
  locks_.set(append_right(kOther), nullptr);
  EXPECT_TRUE(locks_.any_valid()) << "three locks";
  locks_.lose_all();
  EXPECT_FALSE(locks_.any_valid()) << "all are lost";
  EXPECT_FALSE(locks_.any_append_right()) << "the right is lost, too";
  EXPECT_THAT(locks_.all_valid(), IsEmpty());
  EXPECT_EQ(locks_.files(), 2U);
}

TEST_F(HeldLocksTest, ALostRightToAppendIsNoLostLock) {
  set(kOther, kOne, LockMode::kShared);
  locks_.set(append_right(kFile), nullptr);
  EXPECT_TRUE(locks_.any_append_right()) << "of the file";
  EXPECT_THAT(locks_.append_rights(), ElementsAre(kFile));
  EXPECT_TRUE(locks_.lose(kFile, {LockKind::kAppend, 0})) << "the client has the right";
  EXPECT_FALSE(locks_.any_append_right()) << "it is lost";
  EXPECT_FALSE(locks_.any_lost(kFile)) << "only locks count";
  EXPECT_THAT(locks_.append_rights(), ElementsAre(kFile)) << "also a lost one";
}

TEST_F(HeldLocksTest, AllValidLocksAreListedWithTheirProcess) {
  set(kFile, kOne, LockMode::kShared, {0, 4});
  set(kFile, kOne, LockMode::kExclusive, {5, 9});
  const auto all = locks_.all_valid();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[1].handle, kFile);
  EXPECT_EQ(all[1].owner, kOne.number);
  EXPECT_EQ(all[1].pid, 12U);
  EXPECT_EQ(all[1].mode, LockMode::kExclusive);
  EXPECT_EQ(all[1].first, 5U);
  EXPECT_EQ(all[1].last, 9U);
}

TEST_F(HeldLocksTest, ALockInDoubtIsWeakened) {
  set(kFile, kOne, LockMode::kExclusive);
  set(kFile, kTwo, LockMode::kExclusive);
  LockDoubts doubts;
  doubts.begin(1, lock_of(kFile, kOne, LockMode::kNone));
  doubts.begin(2, lock_of(kFile, kTwo, LockMode::kNone));
  locks_.lose(kFile, kTwo);
  const auto weaker = locks_.weaker(doubts);
  ASSERT_THAT(weaker, SizeIs(1)) << "a lost lock is not claimed at all";
  EXPECT_EQ(weaker[0].owner, kOne.number);
  EXPECT_EQ(weaker[0].mode, LockMode::kNone);
}

TEST_F(HeldLocksTest, TheNextProcessInheritsTheRecordedLocks) {
  const UniqueFd memory(::memfd_create("handover", MFD_CLOEXEC));
  auto first = HandoverState::open(memory.get());
  ASSERT_OK(first);
  locks_.set(lock_of(kFile, kOne, LockMode::kShared, {0, 9}), first->get());
  locks_.set(lock_of(kFile, kTwo, LockMode::kExclusive, {20, 29}), first->get());
  locks_.set(lock_of(kFile, kOne, LockMode::kNone, {4, 4}), first->get());
  locks_.set(append_right(kOther), first->get());
  first->reset();

  const auto second = HandoverState::open(memory.get());
  ASSERT_OK(second);
  HeldLocks next;
  for (const auto& piece : (*second)->held()) next.inherit(piece);
  const auto* one = next.find(kFile, kOne);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->ranges.pieces(), locks_.find(kFile, kOne)->ranges.pieces());
  EXPECT_EQ(one->pid, 12U);
  ASSERT_NE(next.find(kFile, kTwo), nullptr);
  EXPECT_EQ(next.find(kFile, kTwo)->ranges.pieces(), locks_.find(kFile, kTwo)->ranges.pieces());
  const auto* right = next.find(kOther, {LockKind::kAppend, 0});
  ASSERT_NE(right, nullptr);
  EXPECT_EQ(right->pid, UINT32_MAX) << "a right to append is requested again";
}

}  // namespace
}  // namespace spate::client
