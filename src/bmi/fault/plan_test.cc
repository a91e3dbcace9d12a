// SPDX-License-Identifier: Apache-2.0
#include "bmi/fault/plan.h"

#include "base/expect.h"

namespace spate::bmi::fault {
namespace {

TEST(Plan, AnEmptyPlanOnlyCounts) {
  Plan plan;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(plan.pass(Point::kCompletion));
  EXPECT_EQ(plan.passed(Point::kCompletion), 3U);
  EXPECT_EQ(plan.passed(Point::kPostSend), 0U);
  EXPECT_EQ(plan.fired(), 0U);
}

TEST(Plan, HitsTheNthAndAsManyAsItSays) {
  Plan plan;
  plan.add({.point = Point::kPostSend, .nth = 3, .count = 2, .status = Errc::kBusy});
  EXPECT_FALSE(plan.pass(Point::kPostSend));
  EXPECT_FALSE(plan.pass(Point::kPostReceive));
  EXPECT_FALSE(plan.pass(Point::kPostSend));
  for (int i = 0; i < 2; ++i) {
    const auto fault = plan.pass(Point::kPostSend);
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->status, Errc::kBusy);
  }
  EXPECT_FALSE(plan.pass(Point::kPostSend));
  EXPECT_EQ(plan.fired(), 2U);
}

TEST(Plan, ClearedItLetsPass) {
  Plan plan;
  plan.add({.point = Point::kListen, .nth = 1, .count = 100});
  EXPECT_TRUE(plan.pass(Point::kListen));
  plan.clear();
  EXPECT_FALSE(plan.pass(Point::kListen));
  EXPECT_EQ(plan.passed(Point::kListen), 2U);
}

}  // namespace
}  // namespace spate::bmi::fault
