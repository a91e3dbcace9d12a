// SPDX-License-Identifier: Apache-2.0
#include "fuse/async_releases.h"

#include <atomic>
#include <thread>

#include "base/expect.h"
#include "job/event.h"

namespace spate::fuse {
namespace {

job::Task<Unit> count_after(job::Event& event, int& ended) {
  std::ignore = co_await event.wait();
  ++ended;
  co_return Unit();
}

job::Task<Unit> set(job::Event& event) {
  event.set();
  co_return Unit();
}

struct AsyncReleasesTest : testing::Test {
  static auto soon() { return std::chrono::steady_clock::now() + std::chrono::milliseconds(5); }
  static auto late() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

  SystemClock clock;
  job::Executor executor{clock};
  job::Event go{executor};
  int ended = 0;
  client::Driver driver{executor, client::ProgressMode::kReady};
  AsyncReleases releases{driver};
};

TEST_F(AsyncReleasesTest, ReleasesGoOnWhileNobodyWaitsForThem) {
  EXPECT_TRUE(releases.begin([this] { return count_after(go, ended); })) << "there is room for the first release";
  EXPECT_EQ(releases.under_way(), 1U);
  EXPECT_FALSE(releases.drain(soon())) << "its release has not ended";
  driver.run([this] { return set(go); });
  EXPECT_TRUE(releases.drain(late())) << "its release does not end";
  EXPECT_EQ(ended, 1);
}

TEST_F(AsyncReleasesTest, ReleasesHoldNoWorkerWhileTheyAreUnderWay) {
  constexpr int kFiles = 10;
  std::atomic<int> begun{0};
  std::thread worker([&] {
    for (int i = 0; i < kFiles; ++i) {
      if (releases.begin([this] { return count_after(go, ended); })) ++begun;
    }
  });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (begun < kFiles && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(begun, kFiles) << "the worker waits for a close that nobody has answered";
  driver.run([this] { return set(go); });
  worker.join();
  EXPECT_TRUE(releases.drain(late())) << "not all releases end";
  EXPECT_EQ(ended, kFiles);
}

TEST_F(AsyncReleasesTest, NoMoreAreUnderWayThanFit) {
  for (std::size_t i = 0; i < AsyncReleases::kMost; ++i) {
    ASSERT_TRUE(releases.begin([this] { return count_after(go, ended); })) << "only " << i << " releases fit";
  }
  EXPECT_FALSE(releases.begin([this] { return count_after(go, ended); })) << "one more than fits";
  driver.run([this] { return set(go); });
  EXPECT_TRUE(releases.drain(late())) << "not all releases end";
  EXPECT_EQ(ended, static_cast<int>(AsyncReleases::kMost));
  EXPECT_TRUE(releases.begin([this] { return set(go); })) << "the ended releases still take room";
  EXPECT_TRUE(releases.drain(late())) << "its release does not end";
}

}  // namespace
}  // namespace spate::fuse
