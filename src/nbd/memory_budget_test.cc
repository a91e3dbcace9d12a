// SPDX-License-Identifier: Apache-2.0
#include "nbd/memory_budget.h"

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "base/expect.h"
#include "job/gate.h"
#include "nbd/connection.h"

namespace spate::nbd {
namespace {

struct Asker {
  explicit Asker(MemoryBudget& budget)
      : claim(budget, [](void* self) { ++static_cast<Asker*>(self)->granted; }, this) {}
  int granted = 0;
  MemoryBudget::Claim claim;
};

class MemoryBudgetTest : public testing::Test {
 protected:
  void pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      clock_.advance(std::chrono::seconds(1));
      while (executor_.step()) {
      }
    }
  }
  ManualClock clock_;
  job::Executor executor_{clock_};
  int ticks_ = 0;
  MemoryBudget budget_{executor_, 100, [](void* ticks) { ++*static_cast<int*>(ticks); }, &ticks_};
};

TEST_F(MemoryBudgetTest, ClaimsAboveTheLimitAreGrantedInOrder) {
  Asker one(budget_), two(budget_), large(budget_), small(budget_);
  ASSERT_TRUE(one.claim.ask(60));
  ASSERT_TRUE(two.claim.ask(40));
  auto first = one.claim.take();
  auto second = two.claim.take();
  EXPECT_FALSE(large.claim.ask(50));
  EXPECT_FALSE(small.claim.ask(1));
  second.release();
  EXPECT_EQ(large.granted + small.granted, 0);  // one byte is free, but an earlier claim waits
  first = {};
  EXPECT_EQ(large.granted, 1);
  EXPECT_EQ(small.granted, 1);
  EXPECT_EQ(budget_.used(), 51U);
  EXPECT_TRUE(large.claim.ask(50));  // the share that it has waited for, not another one
  EXPECT_EQ(large.claim.take().bytes(), 50U);
  EXPECT_EQ(budget_.used(), 1U);
}

TEST_F(MemoryBudgetTest, ARequestAboveTheLimitRunsAlone) {
  Asker small(budget_), huge(budget_), next(budget_);
  ASSERT_TRUE(small.claim.ask(1));
  EXPECT_FALSE(huge.claim.ask(1000));
  small.claim.cancel();
  ASSERT_EQ(huge.granted, 1);
  EXPECT_FALSE(next.claim.ask(1));
  huge.claim.take().release();
  EXPECT_EQ(next.granted, 1);
}

TEST_F(MemoryBudgetTest, AClaimThatEndsLetsTheNextOneRun) {
  Asker holder(budget_), last(budget_);
  auto first = std::make_unique<Asker>(budget_);
  auto middle = std::make_unique<Asker>(budget_);
  ASSERT_TRUE(holder.claim.ask(90));
  EXPECT_FALSE(first->claim.ask(50));
  EXPECT_FALSE(middle->claim.ask(60));
  EXPECT_FALSE(last.claim.ask(10));
  middle.reset();
  EXPECT_EQ(last.granted, 0);
  first.reset();
  EXPECT_EQ(last.granted, 1);
  holder.claim.cancel();  // a share that was granted but not taken is returned, too
  EXPECT_EQ(budget_.used(), 10U);
}

TEST_F(MemoryBudgetTest, TheWaitingTimeStandsStillWhileNobodyWaits) {
  Asker holder(budget_), waits(budget_);
  ASSERT_TRUE(holder.claim.ask(100));
  pass(5);
  EXPECT_EQ(budget_.waited(), 0U);
  EXPECT_FALSE(waits.claim.ask(1));
  pass(3);
  EXPECT_EQ(budget_.waited(), 3U);
  EXPECT_EQ(ticks_, 3);
  clock_.advance(std::chrono::hours(1));  // the process, or its machine, was stopped
  while (executor_.step()) {
  }
  EXPECT_EQ(budget_.waited(), 4U);
  holder.claim.cancel();
  pass(5);
  EXPECT_EQ(budget_.waited(), 4U);
}

job::Task<void> acquire(MemoryBudget& budget, std::size_t bytes, MemoryBudget::Hold& out) {
  out = co_await budget.acquire(bytes);
}

TEST_F(MemoryBudgetTest, CoroutinesWaitForMemory) {
  job::Gate gate(executor_);
  MemoryBudget::Hold one;
  MemoryBudget::Hold two;
  ASSERT_TRUE(job::spawn(gate, acquire(budget_, 80, one)));
  ASSERT_TRUE(job::spawn(gate, acquire(budget_, 80, two)));
  pass(1);
  EXPECT_EQ(one.bytes(), 80U);
  EXPECT_EQ(two.bytes(), 0U);
  one.release();
  pass(1);
  EXPECT_EQ(two.bytes(), 80U);
}

TEST(Output, HoldsAReplysShareUntilItIsSentOrDropped) {
  ManualClock clock;
  job::Executor executor(clock);
  MemoryBudget budget(executor, 1000, [](void*) {}, nullptr);
  ReplyBuffers buffers;
  Asker asker(budget);
  {
    Output output(buffers);
    ASSERT_TRUE(asker.claim.ask(100));
    output.add(Buffer(100), asker.claim.take());
    output.reserve(10);
    ASSERT_TRUE(asker.claim.ask(50));
    output.add(Buffer(50), asker.claim.take());
    EXPECT_EQ(output.held(), 150U);
    EXPECT_EQ(buffers.in_use(), 1U);
    output.clear();
    EXPECT_EQ(output.held(), 0U);
    EXPECT_EQ(output.let_go(), 2U);
    EXPECT_EQ(output.memory(), 0U);
    EXPECT_EQ(budget.used(), 0U);
    EXPECT_EQ(buffers.in_use(), 0U);
    ASSERT_TRUE(asker.claim.ask(50));
    output.add(Buffer(50), asker.claim.take());
  }
  EXPECT_EQ(budget.used(), 0U);
}

}  // namespace
}  // namespace spate::nbd
