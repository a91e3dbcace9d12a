// SPDX-License-Identifier: Apache-2.0
#include "flow/stall_watch.h"

#include "base/expect.h"

namespace spate::flow {
namespace {

using std::chrono::seconds;

class StallWatchTest : public testing::Test {
 protected:
  void pass(seconds span) {
    clock_.advance(span);
    while (executor_.step()) {
    }
  }
  ManualClock clock_;
  job::Executor executor_{clock_};
  job::StopSource parent_;
};

TEST_F(StallWatchTest, FiresWhenNothingMoves) {
  StallWatch watch(executor_, seconds(10));
  watch.begin(parent_);
  pass(seconds(9));
  EXPECT_EQ(watch.token().reason(), Errc::kOk);
  pass(seconds(1));
  EXPECT_EQ(watch.token().reason(), Errc::kTimeout);
  EXPECT_FALSE(parent_.stopped());
}

TEST_F(StallWatchTest, ProgressPostponesTheTimeout) {
  StallWatch watch(executor_, seconds(10));
  watch.begin(parent_);
  for (int i = 0; i < 5; ++i) {
    watch.progress();
    pass(seconds(10));
    EXPECT_EQ(watch.token().reason(), Errc::kOk);
  }
  pass(seconds(10));
  EXPECT_EQ(watch.token().reason(), Errc::kTimeout);
}

TEST_F(StallWatchTest, PassesOnItsParentsStopUntilEnded) {
  StallWatch watch(executor_, seconds(10));
  watch.begin(parent_);
  StallWatch ended(executor_, seconds(10));
  ended.begin(parent_);
  ended.end();
  parent_.request_stop(Errc::kCancelled);
  EXPECT_EQ(watch.token().reason(), Errc::kCancelled);
  EXPECT_EQ(ended.token().reason(), Errc::kOk);
  pass(seconds(20));
  EXPECT_EQ(ended.token().reason(), Errc::kOk);
}

}  // namespace
}  // namespace spate::flow
