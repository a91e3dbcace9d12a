// SPDX-License-Identifier: Apache-2.0
#include "client/blocking.h"

#include <sys/resource.h>

#include <array>
#include <atomic>
#include <future>
#include <utility>

#include "base/expect.h"
#include "job/event.h"

namespace spate::client {
namespace {

job::Task<int> give(int value) { co_return value; }

/// Lets other tasks run between two steps, so that a test would notice two threads on the executor at once.
job::Task<int> count_up(job::Executor& executor, int& counter) {
  const int before = counter;
  co_await executor.yield();
  counter = before + 1;
  co_return counter;
}

job::Task<int> wait_for(job::Event& event, int value) {
  std::ignore = co_await event.wait();
  co_return value;
}

job::Task<void> set(job::Event& event) {
  event.set();
  co_return;
}

struct DriverTest : testing::Test {
  SystemClock clock;
  job::Executor executor{clock};
};

TEST_F(DriverTest, RunReturnsWhatTheTaskGives) {
  Driver driver(executor, ProgressMode::kNone);
  EXPECT_EQ(driver.run([] { return give(7); }), 7);
}

TEST_F(DriverTest, ManyThreadsAreOneAtATimeOnTheExecutor) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 300;
  Driver driver(executor, ProgressMode::kSlow);
  std::atomic<bool> on_executor{false};
  std::atomic<int> overlaps{0};
  int plain = 0;  // not guarded by a lock, because only tasks touch it
  const auto touch = [&]() -> job::Task<int> {
    if (on_executor.exchange(true)) ++overlaps;
    ++plain;
    on_executor = false;
    return give(plain);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) driver.run(touch);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plain, kThreads * kRounds);
  EXPECT_EQ(overlaps, 0);
}

TEST_F(DriverTest, ASlowProgressThreadIsNotWokenByCalls) {
  constexpr int kRounds = 200;
  Driver driver(executor, ProgressMode::kSlow);
  std::atomic<int> by_the_progress_thread{0};
  for (int i = 0; i < kRounds; ++i) {
    driver.run([] { return give(7); });
    executor.post([&, caller = std::this_thread::get_id()] {
      if (std::this_thread::get_id() != caller) ++by_the_progress_thread;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // meanwhile a thread that was woken runs the executor
  }
  driver.run([] { return give(7); });
  EXPECT_LT(by_the_progress_thread, kRounds / 4);
}

TEST_F(DriverTest, ATaskThatWaitsForAnotherThreadsTaskIsDrivenByIt) {
  Driver driver(executor, ProgressMode::kNone);
  job::Event event(executor);
  std::thread waiter([&] { EXPECT_EQ(driver.run([&] { return wait_for(event, 3); }), 3); });
  driver.run([&] { return set(event); });
  waiter.join();
}

TEST_F(DriverTest, AStartedTaskEndsWhenAThreadWaits) {
  Driver driver(executor, ProgressMode::kNone);
  job::Event event(executor);
  const auto first = driver.start([&event] { return wait_for(event, 1); });
  const auto second = driver.start([] { return give(2); });
  EXPECT_FALSE(driver.test(*first));
  EXPECT_TRUE(driver.test(*second));
  EXPECT_EQ(second->value(), 2);
  const std::array<Driver::Started*, 2> both{first.get(), second.get()};
  EXPECT_EQ(driver.wait_any(both), 1U);
  driver.run([&] { return set(event); });
  driver.wait(*first);
  EXPECT_EQ(first->value(), 1);
}

TEST_F(DriverTest, ThreadsThatWaitForStartedTasksShareTheDriving) {
  Driver driver(executor, ProgressMode::kNone);
  int counter = 0;
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto a = driver.start([] { return give(1); });
        const auto b = driver.start([] { return give(2); });
        driver.wait(*b);
        driver.wait(*a);
        sum += a->value() + b->value();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 4 * 100 * 3);
  EXPECT_EQ(driver.run([&] { return count_up(executor, counter); }), 1);
}

TEST_F(DriverTest, AReadyDriverGoesOnByItselfAndGivesWayToCalls) {
  std::promise<void> reached;
  Driver driver(executor, ProgressMode::kReady);
  job::Event event(executor);
  const auto started = driver.start([&]() -> job::Task<int> {
    struct Wait {
      static job::Task<int> run(job::Executor& on, job::Event& for_this, std::promise<void>& told) {
        std::ignore = co_await for_this.wait();
        for (int i = 0; i < 100; ++i) co_await on.yield();
        told.set_value();
        co_return 5;
      }
    };
    return Wait::run(executor, event, reached);
  });
  int counter = 0;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(driver.run([&] { return count_up(executor, counter); }), i + 1);
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(8));  // the background thread drives then
  }
  executor.post([&] { event.set(); });
  reached.get_future().wait();  // no thread calls
  driver.wait(*started);
  EXPECT_EQ(started->value(), 5);
}

TEST_F(DriverTest, AThreadWithoutACallDrivesUntilItHasWork) {
  Driver driver(executor, ProgressMode::kNone);
  std::thread::id ran_on;
  std::atomic<bool> over{false};
  std::thread idle([&] { driver.drive_until([&] { return over.load(); }); });
  const std::thread::id idle_id = idle.get_id();
  executor.post([&] {
    ran_on = std::this_thread::get_id();
    over = true;
  });
  idle.join();
  EXPECT_EQ(ran_on, idle_id) << "no other thread drives";
  EXPECT_EQ(driver.run([] { return give(3); }), 3) << "it has stopped driving";
}

TEST_F(DriverTest, WhileAThreadDrivesForLongTheProgressThreadSleeps) {
  Driver driver(executor, ProgressMode::kReady);
  std::atomic<bool> over{false};
  std::thread idle([&] { driver.drive_until([&] { return over.load(); }); });
  const auto switches = [] {
    rusage used{};
    EXPECT_EQ(::getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_nvcsw;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // by then the progress thread has found the driver
  const long before = switches();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // nothing is to happen meanwhile
  EXPECT_LT(switches() - before, 30) << "it would look 100 times";
  executor.post([&] { over = true; });
  idle.join();
  std::promise<void> ran;
  executor.post([&] { ran.set_value(); });
  ran.get_future().wait();  // by the progress thread, which goes on
}

TEST_F(DriverTest, AThreadWithoutACallGivesWayToCalls) {
  Driver driver(executor, ProgressMode::kNone);
  int counter = 0;
  for (int i = 0; i < 50; ++i) {
    std::promise<void> drives;
    bool told = false;
    std::thread idle([&] {
      driver.drive_until([&] {
        if (!std::exchange(told, true)) drives.set_value();
        return false;
      });
    });
    drives.get_future().wait();
    ASSERT_EQ(driver.run([&] { return count_up(executor, counter); }), i + 1);
    idle.join();
  }
}

TEST_F(DriverTest, AlwaysDrivenTasksGoOnByThemselves) {
  std::promise<void> reached;
  Driver driver(executor, ProgressMode::kAlways);
  const auto started = driver.start([&]() -> job::Task<int> {
    struct Walk {
      static job::Task<int> run(job::Executor& on, std::promise<void>& told) {
        for (int i = 0; i < 100; ++i) co_await on.yield();
        told.set_value();
        co_return 5;
      }
    };
    return Walk::run(executor, reached);
  });
  reached.get_future().wait();
  driver.wait(*started);
  EXPECT_EQ(started->value(), 5);
  EXPECT_EQ(driver.run([] { return give(1); }), 1);
}

}  // namespace
}  // namespace spate::client
