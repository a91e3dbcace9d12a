// SPDX-License-Identifier: Apache-2.0
#include "flow/scheduler.h"

#include <memory>
#include <vector>

#include "base/expect.h"
#include "job/event.h"
#include "job/gate.h"

namespace spate::flow {
namespace {

SchedulerRequest request(std::uint64_t client, std::uint64_t handle, std::uint64_t offset,
                         std::uint64_t bytes = 1 << 20) {
  SchedulerRequest p;
  p.client = ClientId(client);
  p.datafile = {Handle(handle), 0};
  p.offset = offset;
  p.bytes = bytes;
  return p;
}

/// The tested device runs one operation at a time, until the test ends it.
class SchedulerTest : public testing::Test {
 protected:
  struct Op {
    explicit Op(job::Executor& executor) : end(executor) {}
    SchedulerRequest request;
    job::Event end;
    job::StopSource stop;
    Errc outcome = Errc::kOk;
  };

  static job::Task<void> go(SchedulerTest& test, Op& op) {
    auto ticket = co_await test.scheduler().admit(op.request, op.stop);
    op.outcome = ticket.code();
    if (!ticket) co_return;
    test.order_.push_back(&op);
    std::ignore = co_await op.end.wait();
  }

  Scheduler& scheduler() { return *scheduler_; }
  void use(const SchedulerOptions& options) { scheduler_.emplace(executor_, options); }
  Op& start(const SchedulerRequest& p) {
    Op& op = *ops_.emplace_back(std::make_unique<Op>(executor_));
    op.request = p;
    job::spawn(gate_, go(*this, op));
    return op;
  }
  void turn() {
    while (executor_.step()) {
    }
  }
  /// Ends the operations in the order in which they ran, until none runs. Returns their requests in that order, without
  /// the first `first`.
  std::vector<SchedulerRequest> finish(std::size_t first = 1) {
    for (std::size_t ended = 0; ended < order_.size(); ++ended) {
      order_[ended]->end.set();
      turn();
    }
    std::vector<SchedulerRequest> places;
    for (std::size_t i = first; i < order_.size(); ++i) places.push_back(order_[i]->request);
    return places;
  }
  void TearDown() override {
    finish();
    EXPECT_EQ(gate_.count(), 0U);
  }

  ManualClock clock_;
  job::Executor executor_{clock_};
  job::Gate gate_{executor_};
  std::optional<Scheduler> scheduler_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<Op*> order_;
};

std::vector<std::uint64_t> offsets(const std::vector<SchedulerRequest>& places) {
  std::vector<std::uint64_t> all;
  for (const SchedulerRequest& p : places) all.push_back(p.offset);
  return all;
}

TEST_F(SchedulerTest, RunsAtOnceWhatTheDeviceTakes) {
  use({.running = 2});
  start(request(1, 1, 0));
  start(request(1, 1, 1));
  start(request(1, 1, 2));
  EXPECT_EQ(order_.size(), 2U);
  EXPECT_EQ(scheduler().running(), 2U);
  EXPECT_EQ(scheduler().waiting(), 1U);
}

TEST_F(SchedulerTest, WaitingOperationsRunInTheOrderOfTheirOffsets) {
  use({.running = 1, .per_round = 100});
  start(request(1, 1, 50));
  for (const std::uint64_t offset : {70U, 10U, 90U, 30U}) start(request(1, 1, offset));
  EXPECT_EQ(offsets(finish()), (std::vector<std::uint64_t>{10, 30, 70, 90}));
}

TEST_F(SchedulerTest, TheSweepContinuesFromItsPosition) {
  use({.running = 1, .per_round = 100});
  start(request(1, 1, 0));
  for (const std::uint64_t offset : {20U, 40U, 60U}) start(request(1, 1, offset));
  order_[0]->end.set();
  turn();  // 20 runs
  start(request(1, 1, 10));
  start(request(1, 1, 30));
  EXPECT_EQ(offsets(finish(2)), (std::vector<std::uint64_t>{30, 40, 60, 10}));
}

TEST_F(SchedulerTest, AClientWithManyOperationsDoesNotDelayOthers) {
  use({.running = 1, .per_round = 2});
  start(request(1, 1, 0));
  for (std::uint64_t i = 1; i <= 10; ++i) start(request(1, 1, i));
  start(request(2, 2, 0));  // behind all of them by offset, and last to come
  const auto ran = finish();
  std::size_t at = 0;
  while (ran[at].client != ClientId(2)) ++at;
  EXPECT_LE(at, 2U);  // within the first round
}

TEST_F(SchedulerTest, SmallOperationsGoFirstButDoNotStarveLargeOnes) {
  use({.running = 1, .small_bytes = 4096, .per_round = 100, .small_run = 3});
  start(request(1, 1, 0));
  start(request(1, 1, 1000));
  start(request(1, 1, 2000));
  for (std::uint64_t i = 1; i <= 8; ++i) start(request(2, 2, i, 512));
  const auto ran = finish();
  std::vector<std::size_t> large;
  for (std::size_t i = 0; i < ran.size(); ++i) {
    if (ran[i].bytes > 4096) large.push_back(i);
  }
  EXPECT_EQ(large, (std::vector<std::size_t>{3, 7}));
}

TEST_F(SchedulerTest, RefusesMoreThanMayWait) {
  use({.running = 1, .waiting = 2});
  start(request(1, 1, 0));
  start(request(1, 1, 1));
  start(request(1, 1, 2));
  EXPECT_EQ(start(request(1, 1, 3)).outcome, Errc::kBusy);
  EXPECT_EQ(finish().size(), 2U);
}

TEST_F(SchedulerTest, AStoppedOperationLeavesTheQueue) {
  use({.running = 1, .per_round = 1});
  start(request(1, 1, 0));
  Op& in_round = start(request(1, 1, 1));
  Op& later = start(request(1, 1, 2));
  start(request(1, 1, 3));
  in_round.stop.request_stop();
  later.stop.request_stop(Errc::kTimeout);
  turn();
  EXPECT_EQ(in_round.outcome, Errc::kCancelled);
  EXPECT_EQ(later.outcome, Errc::kTimeout);
  EXPECT_EQ(offsets(finish()), (std::vector<std::uint64_t>{3}));
}

SchedulerRequest of_priority(wire::Priority priority, std::uint64_t offset) {
  SchedulerRequest p = request(1, 1, offset);
  p.priority = priority;
  return p;
}

TEST_F(SchedulerTest, ControlGoesFirstAndBackgroundLast) {
  use({.running = 1, .per_round = 100});
  start(request(1, 1, 0));
  start(of_priority(wire::Priority::kBackground, 1));
  start(request(1, 1, 2));
  start(request(2, 1, 3, 512));
  start(of_priority(wire::Priority::kControl, 4));
  EXPECT_EQ(offsets(finish()), (std::vector<std::uint64_t>{4, 3, 2, 1}));
}

TEST_F(SchedulerTest, NothingWaitsForEver) {
  use({.running = 1, .per_round = 100, .control_run = 3, .others_run = 2});
  start(request(1, 1, 0));
  for (std::uint64_t i = 0; i < 12; ++i) start(of_priority(wire::Priority::kControl, 100 + i));
  for (std::uint64_t i = 0; i < 4; ++i) start(request(1, 1, 200 + i));
  start(of_priority(wire::Priority::kBackground, 300));
  const auto ran = offsets(finish());
  EXPECT_EQ(std::vector(ran.begin(), ran.begin() + 12),
            (std::vector<std::uint64_t>{100, 101, 102, 200, 103, 104, 105, 201, 106, 107, 108, 300}));
}

}  // namespace
}  // namespace spate::flow
