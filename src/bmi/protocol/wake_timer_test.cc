// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/wake_timer.h"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "base/expect.h"

namespace spate::bmi::protocol {
namespace {

struct Item {
  MonoTime deadline = MonoTime::never();
};

class DeadlinesTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(timer_.open()) << std::strerror(errno); }
  MonoTime after(int seconds) const { return clock_.now() + std::chrono::seconds(seconds); }

  ManualClock clock_;
  WakeTimer timer_{clock_};
  Deadlines<Item> deadlines_{timer_};
  Item first_;
  Item second_;
};

TEST_F(DeadlinesTest, TheEarliestIsDueFirst) {
  deadlines_.set(second_, after(20));
  deadlines_.set(first_, after(10));
  EXPECT_EQ(deadlines_.first(), after(10));
  EXPECT_EQ(deadlines_.take_due(after(9)), nullptr);
  EXPECT_EQ(deadlines_.take_due(after(30)), &first_);
  EXPECT_EQ(deadlines_.take_due(after(30)), &second_);
  EXPECT_EQ(deadlines_.take_due(after(30)), nullptr);
}

TEST_F(DeadlinesTest, ANewDeadlineReplacesTheOldOne) {
  deadlines_.set(first_, after(10));
  deadlines_.set(first_, after(20));
  EXPECT_EQ(deadlines_.take_due(after(10)), nullptr);
  EXPECT_EQ(deadlines_.take_due(after(20)), &first_);
}

TEST_F(DeadlinesTest, AClearedDeadlineIsNeverDue) {
  deadlines_.set(first_, after(10));
  deadlines_.clear(first_);
  EXPECT_TRUE(deadlines_.empty()) << "the only deadline was cleared";
  EXPECT_EQ(first_.deadline, MonoTime::never());
  EXPECT_EQ(deadlines_.take_due(after(10)), nullptr);
}

TEST_F(DeadlinesTest, TheTimerIsArmedForTheEarliestAndNeverPutOff) {
  deadlines_.set(first_, after(20));
  EXPECT_EQ(timer_.armed_for(), after(20));
  deadlines_.set(second_, after(10));
  EXPECT_EQ(timer_.armed_for(), after(10));
  deadlines_.clear(second_);
  deadlines_.set(second_, after(30));
  EXPECT_EQ(timer_.armed_for(), after(10));
}

TEST_F(DeadlinesTest, ATimeThatHasPassedMakesTheDescriptorReadable) {
  timer_.arm(clock_.now());
  pollfd ready{timer_.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 10'000), 1);
  timer_.drain();
  EXPECT_EQ(timer_.armed_for(), MonoTime::never());
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

}  // namespace
}  // namespace spate::bmi::protocol
