// SPDX-License-Identifier: Apache-2.0
#include "client/session/handover_state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <optional>

#include "base/clock.h"
#include "base/expect.h"
#include "base/unique_fd.h"
#include "client/session/request_slots.h"
#include "job/executor.h"

namespace spate::client {
namespace {

class HandoverStateTest : public ::testing::Test {
 protected:
  HandoverStateTest() : memory_(::memfd_create("handover", MFD_CLOEXEC)) { next_process(); }
  void next_process() {
    handover_.reset();
    auto opened = HandoverState::open(memory_.get());
    ASSERT_OK(opened);
    handover_ = *std::move(opened);
  }
  /// All that it does to the memory: it counts itself.
  void older_process() {
    constexpr off_t kGeneration = 24;
    handover_.reset();
    std::uint64_t generation = 0;
    ASSERT_EQ(::pread(memory_.get(), &generation, sizeof(generation), kGeneration), 8);
    ++generation;
    ASSERT_EQ(::pwrite(memory_.get(), &generation, sizeof(generation), kGeneration), 8);
  }

  UniqueFd memory_;
  std::unique_ptr<HandoverState> handover_;
};

HandoverState::Held lock_of(std::uint64_t owner) {
  HandoverState::Held lock;
  lock.handle = Handle(7);
  lock.owner = owner;
  lock.kind = LockKind::kFlock;
  lock.pid = 12;
  return lock;
}

HandoverState::Append append_of(std::uint64_t request_id, std::uint64_t end, std::uint64_t size) {
  HandoverState::Append append;
  append.request_id = request_id;
  append.handle = Handle(9);
  append.offset = end;
  append.size = size;
  append.client = ClientId(3);
  append.epoch = 1;
  return append;
}

TEST_F(HandoverStateTest, TheNextProcessFindsTheSessionAndKnowsThatItIsASuccessor) {
  EXPECT_FALSE(handover_->inherited());
  EXPECT_EQ(handover_->session(), std::nullopt);
  HandoverState::SessionRecord session;
  session.client = ClientId(5);
  handover_->keep_session(session);
  session.epoch = 2;
  handover_->keep_session(session);
  next_process();
  EXPECT_TRUE(handover_->inherited());
  EXPECT_EQ(handover_->session()->client, ClientId(5));
  EXPECT_EQ(handover_->session()->epoch, 2U);
  EXPECT_GT(handover_->first_number(), std::uint64_t{1} << 40U);
}

TEST_F(HandoverStateTest, MemoryOfAnotherFormIsRefused) {
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(other.get(), 4096), 0);
  EXPECT_ERRC(HandoverState::open(other.get()), Errc::kVersionMismatch);
}

/// The place of the table of directories is what older programs take for records of open files that were never used.
/// They leave it as it is, and do not write into it that they were here.
TEST_F(HandoverStateTest, DirectoriesThatAnOlderProgramMayHaveClosedAreForgotten) {
  using Directory = HandoverState::Directory;
  const auto count = [this] {
    int found = 0;
    handover_->directories().for_each([&](const Directory&) { ++found; });
    return found;
  };
  const auto add = [this] {
    Directory* const directory = handover_->directories().take();
    ASSERT_NE(directory, nullptr);
    handover_->directories().publish(*directory);
  };
  add();
  add();
  next_process();
  EXPECT_EQ(count(), 2);
  older_process();
  next_process();
  EXPECT_EQ(count(), 0);
  add();
  next_process();
  EXPECT_EQ(count(), 1);
}

TEST_F(HandoverStateTest, ThereAreManyDirectoriesAndTheFirstOpensStay) {
  HandoverState::Open* const open = handover_->opens().take();
  open->handle = Handle(9);
  handover_->opens().publish(*open);
  int directories = 0;
  while (HandoverState::Directory* const directory = handover_->directories().take()) {
    handover_->directories().publish(*directory);
    ++directories;
  }
  EXPECT_GT(directories, 30000);
  next_process();
  int opens = 0;
  handover_->opens().for_each([&](const HandoverState::Open& kept) {
    EXPECT_EQ(kept.handle, Handle(9));
    ++opens;
  });
  EXPECT_EQ(opens, 1);
}

TEST_F(HandoverStateTest, ARequestSlotIsKeptWithItsRequestId) {
  handover_->begin_request(3, {17, 42, 99});
  next_process();
  EXPECT_EQ(handover_->slot(3).sequence, 17U);
  EXPECT_EQ(handover_->slot(3).request_id, 42U);
  EXPECT_EQ(handover_->slot(3).digest, 99U);
}

/// Returns the id of a process's next request. reset() makes new slots for it.
class RequestIds {
 public:
  explicit RequestIds(HandoverState& handover) : slots_(executor_, &handover) { slots_.reset(4); }
  wire::RequestId next(std::uint64_t request_id, std::uint64_t digest) {
    return executor_.run(take(request_id, digest));
  }

 private:
  job::Task<wire::RequestId> take(std::uint64_t request_id, std::uint64_t digest) {
    RequestSlots::Params params;
    params.request_id = request_id;
    params.digest = digest;
    const auto lease = co_await slots_.acquire(params, {});
    co_return lease->id();
  }
  SystemClock clock_;
  job::Executor executor_{clock_};
  RequestSlots slots_;
};

bool same(const wire::RequestId& a, const wire::RequestId& b) { return a.slot == b.slot && a.sequence == b.sequence; }

TEST_F(HandoverStateTest, OnlyAResentRequestGetsItsEarlierId) {
  const wire::RequestId before = RequestIds(*handover_).next(2, 99);
  next_process();
  RequestIds ids(*handover_);
  EXPECT_FALSE(same(ids.next(4, 99), before));  // of another call
  EXPECT_FALSE(same(ids.next(2, 98), before));  // another request of the call
  EXPECT_FALSE(same(ids.next(0, 99), before));  // of no call
  EXPECT_TRUE(same(ids.next(2, 99), before));
  EXPECT_FALSE(same(ids.next(2, 99), before));  // the call repeats the same request
}

TEST_F(HandoverStateTest, ARequestKeepsItsSlotUntilItsCallIsAnswered) {
  RequestIds ids(*handover_);
  const wire::RequestId create = ids.next(2, 99);  // the server has answered, but the kernel has no answer
  EXPECT_NE(ids.next(4, 50).slot, create.slot);
  next_process();
  EXPECT_TRUE(same(RequestIds(*handover_).next(2, 99), create));
}

TEST_F(HandoverStateTest, TheSlotOfAnAnsweredCallServesTheNext) {
  RequestIds ids(*handover_);
  const wire::RequestId create = ids.next(2, 99);
  handover_->call_answered(2);
  EXPECT_EQ(ids.next(4, 50).slot, create.slot);
  next_process();
  EXPECT_FALSE(same(RequestIds(*handover_).next(2, 99), create));
}

TEST_F(HandoverStateTest, AResentCallThatIsAnsweredGivesItsSlotBack) {
  const wire::RequestId create = RequestIds(*handover_).next(2, 99);
  next_process();
  RequestIds ids(*handover_);
  EXPECT_TRUE(same(ids.next(2, 99), create));
  handover_->call_answered(2);
  EXPECT_EQ(ids.next(4, 50).slot, create.slot);
}

TEST_F(HandoverStateTest, OneCallMayMakeMoreRequestsThanThereAreSlots) {
  std::set<std::pair<std::uint16_t, std::uint64_t>> given;
  RequestIds ids(*handover_);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const wire::RequestId id = ids.next(2, i);
    given.insert({id.slot, id.sequence});
  }
  EXPECT_EQ(given.size(), 10U);
}

TEST_F(HandoverStateTest, NoIdIsGivenOutTwiceByProcessesThatFollowEachOther) {
  std::set<std::pair<std::uint16_t, std::uint64_t>> given;
  for (std::uint64_t process = 0; process < 3; ++process) {
    RequestIds ids(*handover_);
    for (std::uint64_t i = 0; i < 10; ++i) {
      const wire::RequestId id = ids.next(process * 100 + i, i);
      EXPECT_TRUE(given.insert({id.slot, id.sequence}).second);
    }
    next_process();
  }
}

TEST_F(HandoverStateTest, TheLastRecordOfALockCounts) {
  handover_->keep_held(lock_of(1), {{{0, 9}, LockMode::kShared}, {{20, 29}, LockMode::kExclusive}});
  handover_->keep_held(lock_of(2), {{{40, 49}, LockMode::kShared}});
  next_process();
  handover_->keep_held(lock_of(1), {{{5, 9}, LockMode::kShared}});
  handover_->keep_held(lock_of(2), {});
  next_process();
  const auto all = handover_->held();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].first, 5U);
  EXPECT_EQ(all[0].pid, 12U);
}

TEST_F(HandoverStateTest, AWaitIsRecordedUntilItEnds) {
  handover_->keep_wait(11, lock_of(1));
  handover_->keep_wait(12, lock_of(2));
  handover_->end_wait(11);
  next_process();
  ASSERT_EQ(handover_->waits().size(), 1U);
  EXPECT_EQ(handover_->waits()[0].lock.owner, 2U);
}

TEST_F(HandoverStateTest, ARestartedServerChangesTheNumberOfWrites) {
  const std::uint64_t first = handover_->note_written(ServerId(1), Incarnation(10));
  EXPECT_EQ(handover_->note_written(ServerId(2), Incarnation(20)), first);
  next_process();
  EXPECT_EQ(handover_->note_written(ServerId(1), Incarnation(10)), first);
  EXPECT_NE(handover_->note_written(ServerId(1), Incarnation(11)), first);
  EXPECT_EQ(handover_->last_writer(ServerId(1)), Incarnation(11));
  EXPECT_EQ(handover_->last_writer(ServerId(3)), std::nullopt);
}

TEST_F(HandoverStateTest, AResentAppendKeepsItsOffsetAndLaterOnesFollowIt) {
  EXPECT_EQ(handover_->place_append(append_of(2, 100, 10)), 100U);
  next_process();
  handover_->asked_again(2);
  handover_->forget_unasked();
  EXPECT_EQ(handover_->place_append(append_of(4, 100, 5)), 110U);  // nothing of the first append arrived
  EXPECT_EQ(handover_->place_append(append_of(2, 115, 10)), 100U);
  handover_->end_append(2);
  EXPECT_EQ(handover_->place_append(append_of(6, 115, 5)), 115U);
}

TEST_F(HandoverStateTest, NoOtherAppendRunsUntilAnInheritedAppendIsRepeatedAndDone) {
  handover_->place_append(append_of(2, 100, 10));
  EXPECT_FALSE(handover_->may_append_again(Handle(9)));
  next_process();
  EXPECT_TRUE(handover_->may_append_again(Handle(9)));
  EXPECT_FALSE(handover_->may_append_again(Handle(8)));
  handover_->asked_again(2);
  handover_->forget_unasked();
  EXPECT_TRUE(handover_->may_append_again(Handle(9)));
  handover_->end_append(2);
  EXPECT_FALSE(handover_->may_append_again(Handle(9)));
}

TEST_F(HandoverStateTest, TheNextProcessForgetsAppendsThatNobodyResends) {
  handover_->place_append(append_of(2, 100, 10));
  handover_->end_append(2);
  handover_->place_append(append_of(4, 200, 10));
  next_process();
  EXPECT_EQ(handover_->place_append(append_of(6, 50, 1)), 210U);
  handover_->forget_unasked();
  EXPECT_EQ(handover_->place_append(append_of(8, 51, 1)), 51U);
}

/// The process was killed when it had answered the append, before it could forget it.
TEST_F(HandoverStateTest, AnAppendBehindATruncationDoesNotComeBehindWhatWasCutOff) {
  handover_->place_append(append_of(2, 100, 10));
  handover_->place_append(append_of(4, 110, 10));
  next_process();
  handover_->asked_again(4);
  handover_->forget_unasked(Handle(8));
  EXPECT_EQ(handover_->place_append(append_of(6, 50, 1)), 120U) << "another file is truncated";
  handover_->forget_unasked(Handle(9));
  EXPECT_EQ(handover_->place_append(append_of(4, 50, 10)), 110U) << "the kernel repeats this one";
  handover_->end_append(4);
  EXPECT_EQ(handover_->place_append(append_of(8, 51, 1)), 51U);
}

TEST_F(HandoverStateTest, OpensAreFoundOnceTheyArePublished) {
  HandoverState::Open* const kept = handover_->opens().take();
  kept->number = 1;
  handover_->opens().publish(*kept);
  HandoverState::Open* const closed = handover_->opens().take();
  handover_->opens().publish(*closed);
  handover_->opens().remove(*closed);
  handover_->opens().take()->number = 3;  // killed before it was published
  next_process();
  std::vector<std::uint64_t> numbers;
  handover_->opens().for_each([&](const HandoverState::Open& open) { numbers.push_back(open.number); });
  EXPECT_EQ(numbers, std::vector<std::uint64_t>{1});
}

TEST_F(HandoverStateTest, TheNextProcessFindsTheCopiesThatTheKernelMayStillHave) {
  const MonoTime now{std::chrono::hours(1)};
  EXPECT_TRUE(handover_->note_copy(Handle(5), now + std::chrono::seconds(10), now));
  EXPECT_TRUE(handover_->note_copy(Handle(6), now + std::chrono::seconds(2), now));
  EXPECT_TRUE(handover_->note_copy(Handle(6), now + std::chrono::seconds(1), now));  // the earlier copy lasts longer
  next_process();
  EXPECT_EQ(handover_->copied(now), (std::vector<Handle>{Handle(5), Handle(6)}));
  EXPECT_EQ(handover_->copied(now + std::chrono::milliseconds(1500)), (std::vector<Handle>{Handle(5), Handle(6)}));
  EXPECT_EQ(handover_->copied(now + std::chrono::seconds(2)), std::vector<Handle>{Handle(5)});
}

TEST_F(HandoverStateTest, EndedCopiesMakeRoomForNewOnes) {
  const MonoTime now{std::chrono::hours(1)};
  const MonoTime until = now + std::chrono::seconds(10);
  std::uint64_t noted = 0;
  for (std::uint64_t i = 1; i <= 200'000; ++i) noted += handover_->note_copy(Handle(i), until, now) ? 1U : 0U;
  EXPECT_GE(noted, 65536U);
  EXPECT_LT(noted, 200'000U);
  EXPECT_EQ(handover_->copied(now).size(), noted);
  EXPECT_TRUE(handover_->note_copy(Handle(300'000), until + std::chrono::seconds(10), until));
  EXPECT_EQ(handover_->copied(until), std::vector<Handle>{Handle(300'000)});
}

}  // namespace
}  // namespace spate::client
