// SPDX-License-Identifier: Apache-2.0
#include "bmi/fault/plan.h"

#include <optional>

#include "base/expect.h"

namespace spate::bmi::fault {
namespace {

TEST(Plan, AnEmptyPlanOnlyCounts) {
  Plan plan;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(plan.pass(Point::kCompletion), std::nullopt);
  EXPECT_EQ(plan.passed(Point::kCompletion), 3U);
  EXPECT_EQ(plan.passed(Point::kPostSend), 0U);
  EXPECT_EQ(plan.fired(), 0U);
}

TEST(Plan, AffectsTheNthCallAndAsManyAsConfigured) {
  Plan plan;
  plan.add({.point = Point::kPostSend, .nth = 3, .count = 2, .status = Errc::kBusy});
  EXPECT_EQ(plan.pass(Point::kPostSend), std::nullopt);
  EXPECT_EQ(plan.pass(Point::kPostReceive), std::nullopt);
  EXPECT_EQ(plan.pass(Point::kPostSend), std::nullopt);
  for (int i = 0; i < 2; ++i) {
    const auto fault = plan.pass(Point::kPostSend);
    ASSERT_NE(fault, std::nullopt);
    EXPECT_EQ(fault->status, Errc::kBusy);
  }
  EXPECT_EQ(plan.pass(Point::kPostSend), std::nullopt);
  EXPECT_EQ(plan.fired(), 2U);
}

TEST(Plan, AClearedPlanAffectsNoCall) {
  Plan plan;
  plan.add({.point = Point::kListen, .nth = 1, .count = 100});
  EXPECT_NE(plan.pass(Point::kListen), std::nullopt);
  plan.clear();
  EXPECT_EQ(plan.pass(Point::kListen), std::nullopt);
  EXPECT_EQ(plan.passed(Point::kListen), 2U);
}

}  // namespace
}  // namespace spate::bmi::fault
