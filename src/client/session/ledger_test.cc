// SPDX-License-Identifier: Apache-2.0
#include "client/session/ledger.h"

#include <sys/mman.h>

#include "base/clock.h"
#include "base/expect.h"
#include "base/unique_fd.h"
#include "client/session/request_slots.h"
#include "job/executor.h"

namespace spate::client {
namespace {

class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest() : memory_(::memfd_create("ledger", MFD_CLOEXEC)) { next_process(); }
  void next_process() {
    ledger_.reset();
    auto opened = Ledger::open(memory_.get());
    ASSERT_TRUE(opened.has_value());
    ledger_ = *std::move(opened);
  }

  UniqueFd memory_;
  std::unique_ptr<Ledger> ledger_;
};

Ledger::Held lock_of(std::uint64_t owner) {
  Ledger::Held lock;
  lock.handle = Handle(7);
  lock.owner = owner;
  lock.kind = LockKind::kFlock;
  lock.pid = 12;
  return lock;
}

Ledger::Append append_of(std::uint64_t cause, std::uint64_t end, std::uint64_t size) {
  Ledger::Append append;
  append.cause = cause;
  append.handle = Handle(9);
  append.offset = end;
  append.size = size;
  append.client = ClientId(3);
  append.epoch = 1;
  return append;
}

TEST_F(LedgerTest, TheNextProcessFindsTheSessionAndKnowsThatItIsTheNext) {
  EXPECT_FALSE(ledger_->inherited());
  EXPECT_FALSE(ledger_->session().has_value());
  Ledger::Session session;
  session.client = ClientId(5);
  ledger_->keep_session(session);
  session.epoch = 2;
  ledger_->keep_session(session);
  next_process();
  EXPECT_TRUE(ledger_->inherited());
  EXPECT_EQ(ledger_->session()->client, ClientId(5));
  EXPECT_EQ(ledger_->session()->epoch, 2U);
  EXPECT_GT(ledger_->first_number(), std::uint64_t{1} << 40U);
}

TEST_F(LedgerTest, MemoryOfAnotherFormIsRefused) {
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(other.get(), 4096), 0);
  EXPECT_ERRC(Ledger::open(other.get()), Errc::kVersionMismatch);
}

TEST_F(LedgerTest, ARequestSlotIsKeptWithItsCause) {
  ledger_->begin_request(3, {17, 42, 99});
  next_process();
  EXPECT_EQ(ledger_->slot(3).sequence, 17U);
  EXPECT_EQ(ledger_->slot(3).cause, 42U);
  EXPECT_EQ(ledger_->slot(3).digest, 99U);
}

/// The id of the next request of a process: its slots are made anew by reset().
class RequestIds {
 public:
  explicit RequestIds(Ledger& ledger) : slots_(executor_, &ledger) { slots_.reset(4); }
  wire::RequestId next(std::uint64_t cause, std::uint64_t digest) { return executor_.run(take(cause, digest)); }

 private:
  job::Task<wire::RequestId> take(std::uint64_t cause, std::uint64_t digest) {
    RequestSlots::Wish wish;
    wish.cause = cause;
    wish.digest = digest;
    const auto lease = co_await slots_.acquire(wish, {});
    co_return lease->id();
  }
  SystemClock clock_;
  job::Executor executor_{clock_};
  RequestSlots slots_;
};

bool same(const wire::RequestId& a, const wire::RequestId& b) { return a.slot == b.slot && a.sequence == b.sequence; }

TEST_F(LedgerTest, ARequestThatIsAskedForAgainHasTheIdThatItHadOnceAndNoOtherDoes) {
  const wire::RequestId before = RequestIds(*ledger_).next(2, 99);
  next_process();
  RequestIds ids(*ledger_);
  EXPECT_FALSE(same(ids.next(4, 99), before));  // another call's
  EXPECT_FALSE(same(ids.next(2, 98), before));  // another request of the call
  EXPECT_FALSE(same(ids.next(0, 99), before));  // nobody's
  EXPECT_TRUE(same(ids.next(2, 99), before));
  EXPECT_FALSE(same(ids.next(2, 99), before));  // the call does the same once more
}

TEST_F(LedgerTest, NoIdIsGivenOutTwiceByProcessesThatFollowEachOther) {
  std::set<std::pair<std::uint16_t, std::uint64_t>> given;
  for (std::uint64_t process = 0; process < 3; ++process) {
    RequestIds ids(*ledger_);
    for (std::uint64_t i = 0; i < 10; ++i) {
      const wire::RequestId id = ids.next(process * 100 + i, i);
      EXPECT_TRUE(given.insert({id.slot, id.sequence}).second);
    }
    next_process();
  }
}

TEST_F(LedgerTest, OfLocksWhatWasKeptLastCounts) {
  ledger_->keep_held(lock_of(1), {{{0, 9}, LockMode::kShared}, {{20, 29}, LockMode::kExclusive}});
  ledger_->keep_held(lock_of(2), {{{40, 49}, LockMode::kShared}});
  next_process();
  ledger_->keep_held(lock_of(1), {{{5, 9}, LockMode::kShared}});
  ledger_->keep_held(lock_of(2), {});
  next_process();
  const auto all = ledger_->held();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].first, 5U);
  EXPECT_EQ(all[0].pid, 12U);
}

TEST_F(LedgerTest, WaitsAreThereUntilTheyEnd) {
  ledger_->keep_wait(11, lock_of(1));
  ledger_->keep_wait(12, lock_of(2));
  ledger_->end_wait(11);
  next_process();
  ASSERT_EQ(ledger_->waits().size(), 1U);
  EXPECT_EQ(ledger_->waits()[0].lock.owner, 2U);
}

TEST_F(LedgerTest, ARestartedServerChangesTheNumberOfWrites) {
  const std::uint64_t first = ledger_->note_written(ServerId(1), Incarnation(10));
  EXPECT_EQ(ledger_->note_written(ServerId(2), Incarnation(20)), first);
  next_process();
  EXPECT_EQ(ledger_->note_written(ServerId(1), Incarnation(10)), first);
  EXPECT_NE(ledger_->note_written(ServerId(1), Incarnation(11)), first);
  EXPECT_EQ(ledger_->last_writer(ServerId(1)), Incarnation(11));
  EXPECT_FALSE(ledger_->last_writer(ServerId(3)).has_value());
}

TEST_F(LedgerTest, AnAppendThatIsAskedForAgainGoesWhereItWentAndOthersBehindIt) {
  EXPECT_EQ(ledger_->place_append(append_of(2, 100, 10)), 100U);
  next_process();
  ledger_->asked_again(2);
  ledger_->forget_unasked();
  EXPECT_EQ(ledger_->place_append(append_of(4, 100, 5)), 110U);  // nothing of the first one arrived
  EXPECT_EQ(ledger_->place_append(append_of(2, 115, 10)), 100U);
  ledger_->end_append(2);
  EXPECT_EQ(ledger_->place_append(append_of(6, 115, 5)), 115U);
}

TEST_F(LedgerTest, NobodyElseMayAppendUntilWhatWasBegunIsAskedForAndDone) {
  ledger_->place_append(append_of(2, 100, 10));
  EXPECT_FALSE(ledger_->may_append_again(Handle(9)));
  next_process();
  EXPECT_TRUE(ledger_->may_append_again(Handle(9)));
  EXPECT_FALSE(ledger_->may_append_again(Handle(8)));
  ledger_->asked_again(2);
  ledger_->forget_unasked();
  EXPECT_TRUE(ledger_->may_append_again(Handle(9)));
  ledger_->end_append(2);
  EXPECT_FALSE(ledger_->may_append_again(Handle(9)));
}

TEST_F(LedgerTest, AnAppendThatWasAnsweredIsOverAndOneThatNobodyAsksForIsForgotten) {
  ledger_->place_append(append_of(2, 100, 10));
  ledger_->end_append(2);
  ledger_->place_append(append_of(4, 200, 10));
  next_process();
  EXPECT_EQ(ledger_->place_append(append_of(6, 50, 1)), 210U);
  ledger_->forget_unasked();
  EXPECT_EQ(ledger_->place_append(append_of(8, 51, 1)), 51U);
}

TEST_F(LedgerTest, OpensAreFoundOnceTheyArePublished) {
  Ledger::Open* const kept = ledger_->opens().take();
  kept->number = 1;
  ledger_->opens().publish(*kept);
  Ledger::Open* const closed = ledger_->opens().take();
  ledger_->opens().publish(*closed);
  ledger_->opens().remove(*closed);
  ledger_->opens().take()->number = 3;  // killed before it was published
  next_process();
  std::vector<std::uint64_t> numbers;
  ledger_->opens().for_each([&](const Ledger::Open& open) { numbers.push_back(open.number); });
  EXPECT_EQ(numbers, std::vector<std::uint64_t>{1});
}

TEST_F(LedgerTest, TheNextProcessFindsWhatMayStillBeCopied) {
  const MonoTime now{std::chrono::hours(1)};
  EXPECT_TRUE(ledger_->note_copy(Handle(5), now + std::chrono::seconds(10), now));
  EXPECT_TRUE(ledger_->note_copy(Handle(6), now + std::chrono::seconds(2), now));
  EXPECT_TRUE(ledger_->note_copy(Handle(6), now + std::chrono::seconds(1), now));  // the earlier one lasts longer
  next_process();
  EXPECT_EQ(ledger_->copied(now), (std::vector<Handle>{Handle(5), Handle(6)}));
  EXPECT_EQ(ledger_->copied(now + std::chrono::milliseconds(1500)), (std::vector<Handle>{Handle(5), Handle(6)}));
  EXPECT_EQ(ledger_->copied(now + std::chrono::seconds(2)), std::vector<Handle>{Handle(5)});
}

TEST_F(LedgerTest, ThereIsRoomForCopiesOfManyAndThoseThatAreOverMakeRoom) {
  const MonoTime now{std::chrono::hours(1)};
  const MonoTime until = now + std::chrono::seconds(10);
  std::uint64_t noted = 0;
  for (std::uint64_t i = 1; i <= 200'000; ++i) noted += ledger_->note_copy(Handle(i), until, now) ? 1U : 0U;
  EXPECT_GE(noted, 65536U);
  EXPECT_LT(noted, 200'000U);
  EXPECT_EQ(ledger_->copied(now).size(), noted);
  EXPECT_TRUE(ledger_->note_copy(Handle(300'000), until + std::chrono::seconds(10), until));
  EXPECT_EQ(ledger_->copied(until), std::vector<Handle>{Handle(300'000)});
}

}  // namespace
}  // namespace spate::client
