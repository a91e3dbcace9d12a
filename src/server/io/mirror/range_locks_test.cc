// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/range_locks.h"

#include <gmock/gmock.h>

#include "base/expect.h"
#include "job/event.h"
#include "job/gate.h"

namespace spate::io {
namespace {

constexpr DatafileId kLocked{Handle(7), 1};
constexpr std::uint64_t kGranule = RangeLocks::kGranule;

class RangeLocksTest : public ::testing::Test {
 protected:
  /// Takes the range, says so, and holds it until the event is set.
  job::Task<void> hold(int who, RangeLocks::Range range, job::Event& until, job::StopToken stop) {
    const auto lock = co_await locks_.take(kLocked, range, stop);
    if (!lock) co_return;
    took_.push_back(who);
    std::ignore = co_await until.wait();
  }
  void begin(int who, std::uint64_t from, std::uint64_t to, job::Event& until, job::StopToken stop = {}) {
    job::spawn(gate_, hold(who, RangeLocks::Range{from * kGranule, to * kGranule}, until, stop));
    while (executor_.step()) {
    }
  }
  void let_go(job::Event& event) {
    event.set();
    while (executor_.step()) {
    }
  }

  ManualClock clock_;
  job::Executor executor_{clock_};
  job::Gate gate_{executor_};
  RangeLocks locks_{executor_};
  std::vector<int> took_;
  job::Event a_{executor_};
  job::Event b_{executor_};
  job::Event c_{executor_};
};

TEST_F(RangeLocksTest, DisjointRangesAreHeldTogether) {
  begin(1, 0, 1, a_);
  begin(2, 1, 2, a_);
  EXPECT_THAT(took_, ::testing::ElementsAre(1, 2));
  let_go(a_);
  EXPECT_TRUE(locks_.idle()) << "a lock or a waiter is left";
}

TEST_F(RangeLocksTest, OverlappingRangesWaitInTheOrderOfTheirArrival) {
  begin(1, 0, 2, a_);
  begin(2, 1, 4, b_);
  begin(3, 3, 5, c_);  // is behind the second one, not behind the first
  EXPECT_THAT(took_, ::testing::ElementsAre(1));
  let_go(a_);
  EXPECT_THAT(took_, ::testing::ElementsAre(1, 2));
  let_go(b_);
  EXPECT_THAT(took_, ::testing::ElementsAre(1, 2, 3));
  let_go(c_);
  EXPECT_TRUE(locks_.idle()) << "a lock or a waiter is left";
}

TEST_F(RangeLocksTest, BytesOfOneGranuleOverlap) {
  job::spawn(gate_, hold(1, RangeLocks::Range{0, 10}, a_, {}));
  job::spawn(gate_, hold(2, RangeLocks::Range{20, 30}, a_, {}));
  EXPECT_THAT(took_, ::testing::ElementsAre(1));
  let_go(a_);
  EXPECT_THAT(took_, ::testing::ElementsAre(1, 2));
}

TEST_F(RangeLocksTest, AStoppedWaiterLetsTheNextOnesRun) {
  job::StopSource stop;
  begin(1, 0, 1, a_);
  begin(2, 0, 9, b_, stop);
  begin(3, 5, 6, a_);
  EXPECT_THAT(took_, ::testing::ElementsAre(1));
  stop.request_stop();
  while (executor_.step()) {
  }
  EXPECT_THAT(took_, ::testing::ElementsAre(1, 3));
  let_go(a_);
  EXPECT_TRUE(locks_.idle()) << "a lock or a waiter is left";
}

}  // namespace
}  // namespace spate::io
