// SPDX-License-Identifier: Apache-2.0
// Tries the coroutine constructs that Spate relies on with each compiler (docs/architecture.md, "Coroutines").
#include "job/task.h"

#include <memory>

#include "base/expect.h"
#include "job/deadline.h"
#include "job/event.h"
#include "job/executor.h"
#include "job/gate.h"
#include "job/semaphore.h"

namespace spate::job {
namespace {

using std::chrono::milliseconds;

Task<int> immediate(int v) { co_return v; }

Task<long> sum_of_many(int n) {
  long sum = 0;
  for (int i = 0; i < n; ++i) sum += co_await immediate(1);
  co_return sum;
}

TEST(Task, AMillionChildrenThatEndAtOnceKeepTheStackFlat) {
  ManualClock clock;
  Executor executor(clock);
  EXPECT_EQ(executor.run(sum_of_many(1'000'000)), 1'000'000);
}

Task<std::unique_ptr<int>> delayed(Executor& executor, std::unique_ptr<int> value) {
  co_await executor.yield();
  co_return value;
}
Task<int> move_through(Executor& executor) {
  auto value = std::make_unique<int>(7);
  auto back = co_await delayed(executor, std::move(value));
  co_return *back;
}

TEST(Task, MoveOnlyParametersAndResultsSurviveSuspension) {
  ManualClock clock;
  Executor executor(clock);
  EXPECT_EQ(executor.run(move_through(executor)), 7);
}

Task<Errc> sleep_for(Executor& executor, Duration span, StopToken stop) {
  const auto result = co_await executor.sleep(span, stop);
  co_return result.code();
}

TEST(Executor, SleepEndsWithTheStopReason) {
  SystemClock clock;
  Executor executor(clock);
  DeadlineScope scope(executor, executor.now() + milliseconds(2), {});
  EXPECT_EQ(executor.run(sleep_for(executor, std::chrono::hours(1), scope.token())), Errc::kTimeout);
}

Task<void> worker(Executor& executor, Semaphore& semaphore, int& running, int& most) {
  auto units = co_await semaphore.acquire(1);
  ++running;
  most = std::max(most, running);
  co_await executor.yield();
  --running;
}
Task<void> close_gate(Gate& gate) { co_await gate.close(); }

TEST(Gate, CloseWaitsForAllAndTheSemaphoreBoundsThem) {
  ManualClock clock;
  Executor executor(clock);
  Gate gate(executor);
  Semaphore semaphore(executor, 3);
  int running = 0;
  int most = 0;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(spawn(gate, worker(executor, semaphore, running, most)));
  executor.run(close_gate(gate));
  EXPECT_EQ(running, 0);
  EXPECT_EQ(most, 3);
  EXPECT_FALSE(spawn(gate, close_gate(gate)));
}

Task<void> wait_for(Event& event, StopToken stop, Errc& out) {
  const auto result = co_await event.wait(stop);
  out = result.code();
}

TEST(Event, WakesAllAndHonoursStop) {
  ManualClock clock;
  Executor executor(clock);
  Gate gate(executor);
  Event event(executor);
  StopSource stop;
  Errc a = Errc::kUnknown;
  Errc b = Errc::kUnknown;
  spawn(gate, wait_for(event, {}, a));
  spawn(gate, wait_for(event, stop, b));
  stop.request_stop();
  event.set();
  executor.run(close_gate(gate));
  EXPECT_EQ(a, Errc::kOk);
  EXPECT_EQ(b, Errc::kCancelled);
}

}  // namespace
}  // namespace spate::job
