// SPDX-License-Identifier: Apache-2.0
#include "rpc/patience.h"

#include "base/expect.h"

namespace spate::rpc {
namespace {

using namespace std::chrono_literals;

TEST(Patience, DoublesWithEachWaitInVainUpToItsLimit) {
  Patience patience(8, 0);
  for (const std::uint32_t factor : {1U, 2U, 4U, 8U, 8U}) {
    EXPECT_EQ(patience.factor(), factor);
    patience.expired(patience.factor());
  }
}

TEST(Patience, WaitsThatEndTogetherCountOnce) {
  Patience patience(8, 0);
  for (int i = 0; i < 3; ++i) patience.expired(1);
  EXPECT_EQ(patience.factor(), 2U);
}

TEST(Patience, TheFirstWaitsInVainAfterAnAnswerAreSpared) {
  Patience patience(8, 2);
  for (int i = 0; i < 2; ++i) patience.expired(1);
  EXPECT_EQ(patience.factor(), 1U);
  patience.answered(1ms, 1s);
  for (int i = 0; i < 2; ++i) patience.expired(1);
  EXPECT_EQ(patience.factor(), 1U);
  patience.expired(1);
  EXPECT_EQ(patience.factor(), 2U);
}

TEST(Patience, QuickAnswersHalveIt) {
  Patience patience(8, 0);
  for (int i = 0; i < 3; ++i) patience.expired(patience.factor());
  patience.answered(1ms, 1s);
  EXPECT_EQ(patience.factor(), 4U);
  for (int i = 0; i < 3; ++i) patience.answered(1ms, 1s);
  EXPECT_EQ(patience.factor(), 1U);
}

TEST(Patience, AnAnswerThatNeededItsTimeLeavesIt) {
  Patience patience(8, 0);
  for (int i = 0; i < 2; ++i) patience.expired(patience.factor());
  patience.answered(1200ms, 1s);
  EXPECT_EQ(patience.factor(), 4U) << "half of it would not be twice what the answer took";
}

}  // namespace
}  // namespace spate::rpc
