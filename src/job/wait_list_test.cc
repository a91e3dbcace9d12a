// SPDX-License-Identifier: Apache-2.0
// Coroutines that wait at a semaphore: their order, and what one that gives up leaves behind.
#include "job/wait_list.h"

#include <gmock/gmock.h>

#include <string>

#include "base/expect.h"
#include "job/gate.h"
#include "job/semaphore.h"
#include "job/task.h"

namespace spate::job {
namespace {

class WaitListTest : public testing::Test {
 protected:
  /// Takes `n` units and keeps them until it is let go.
  Task<void> take(std::size_t n, StopToken stop, char name) {
    auto units = co_await semaphore_.acquire(n, stop);
    log_ += units ? name : static_cast<char>(name - 'a' + 'A');
  }
  Task<void> close() { co_await gate_.close(); }
  void start(std::size_t n, char name, StopToken stop = {}) { spawn(gate_, take(n, stop, name)); }

  ManualClock clock_;
  Executor executor_{clock_};
  Gate gate_{executor_};
  Semaphore semaphore_{executor_, 3};
  std::string log_;  // names of coroutines in the order in which they got units; a capital: it gave up
};

TEST_F(WaitListTest, TheFirstWaiterIsServedFirstEvenIfLaterOnesFit) {
  auto held = semaphore_.try_acquire(2);
  start(2, 'a');
  start(1, 'b');  // there are units for it, but it must not overtake
  while (executor_.step()) {
  }
  EXPECT_EQ(log_, "");
  held.reset();
  executor_.run(close());
  EXPECT_EQ(log_, "ab");
}

TEST_F(WaitListTest, WhenTheFirstWaiterGivesUpTheOthersAreServed) {
  StopSource stop;
  auto held = semaphore_.try_acquire(2);
  start(3, 'a', stop);
  start(1, 'b');
  stop.request_stop();
  executor_.run(close());
  EXPECT_EQ(log_, "Ab");
}

TEST_F(WaitListTest, WhenAMiddleWaiterGivesUpTheOthersKeepTheirOrder) {
  StopSource stop;
  auto held = semaphore_.try_acquire(3);
  start(1, 'a');
  start(1, 'b', stop);
  start(1, 'c');
  stop.request_stop();
  held.reset();
  executor_.run(close());
  EXPECT_EQ(log_, "Bac");
  EXPECT_EQ(semaphore_.available(), 3U);
}

}  // namespace
}  // namespace spate::job
