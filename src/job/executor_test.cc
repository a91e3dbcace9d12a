// SPDX-License-Identifier: Apache-2.0
#include "job/executor.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "base/expect.h"
#include "job/gate.h"

namespace spate::job {
namespace {

/// A source with only a descriptor. It may have a sleep of its own that also watches others' descriptors.
class TestSource final : public Source {
 public:
  explicit TestSource(bool sleeps) : sleeps_(sleeps), event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  void ring() {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(event_.get(), &one, sizeof one), sizeof one);
  }
  std::size_t poll() override {
    std::uint64_t count = 0;
    return ::read(event_.get(), &count, sizeof count) > 0 ? 1 : 0;
  }
  int wait_descriptor() const override { return event_.get(); }
  bool prepare_to_wait() override { return true; }
  bool wake_by(int fd) override {
    if (sleeps_) watched.push_back(fd);
    return sleeps_;
  }
  void stop_wake_by(int fd) override { std::erase(watched, fd); }
  void wait(Duration timeout) override {
    ++waits;
    std::vector<pollfd> fds{{event_.get(), POLLIN, 0}};
    for (const int fd : watched) fds.push_back({fd, POLLIN, 0});
    ::poll(fds.data(), fds.size(), timeout.count() < 0 ? -1 : static_cast<int>(timeout.count() / 1'000'000 + 1));
  }

  std::vector<int> watched;
  int waits = 0;

 private:
  const bool sleeps_;
  UniqueFd event_;
};

class ExecutorSleep : public testing::Test {
 protected:
  /// Sleeps until another thread posts. If the post does not end the sleep, the test hangs.
  void expect_a_post_wakes() {
    bool called = false;
    std::thread other([&] { executor_.post([&called] { called = true; }); });
    while (!called) executor_.turn();
    other.join();
  }

  SystemClock clock_;
  Executor executor_{clock_};
};

TEST_F(ExecutorSleep, APostWakesWithoutSources) { expect_a_post_wakes(); }

TEST_F(ExecutorSleep, UsesTheSleepOfItsSource) {
  TestSource plain(false);
  TestSource sleeper(true);
  executor_.add_source(plain);
  executor_.add_source(sleeper);
  EXPECT_EQ(sleeper.watched.size(), 3U) << "the other source, timers and posts";
  plain.ring();
  executor_.turn();  // a lost wake would let it sleep for ever
  EXPECT_EQ(sleeper.waits, 1);
  expect_a_post_wakes();
  executor_.remove_source(plain);
  EXPECT_EQ(sleeper.watched.size(), 2U);
  executor_.remove_source(sleeper);
  EXPECT_THAT(sleeper.watched, testing::IsEmpty());
}

TEST_F(ExecutorSleep, GoesOnWhenTheSourceLeaves) {
  TestSource plain(false);
  TestSource sleeper(true);
  TestSource second(true);
  executor_.add_source(sleeper);
  executor_.add_source(plain);
  executor_.add_source(second);
  executor_.remove_source(sleeper);
  EXPECT_EQ(second.watched.size(), 3U);
  plain.ring();
  executor_.turn();
  EXPECT_EQ(second.waits, 1);
  executor_.remove_source(second);
  plain.ring();
  executor_.turn();
  expect_a_post_wakes();
  executor_.remove_source(plain);
}

TEST_F(ExecutorSleep, ADisarmedTimerEndsAtMostOneSleep) {
  TestSource sleeper(true);
  executor_.add_source(sleeper);
  {
    Executor::Timer timer(executor_);
    // Long enough not to be due before the turn, or nothing would end the second one.
    timer.arm(executor_.now() + std::chrono::milliseconds(200), [](void*) {}, nullptr);
    sleeper.ring();
    executor_.turn();  // the timer is set
  }
  executor_.turn();  // the timer ends the sleep
  sleeper.ring();
  executor_.turn();
  EXPECT_EQ(sleeper.waits, 3);
  for (const int fd : sleeper.watched) {
    pollfd polled{fd, POLLIN, 0};
    EXPECT_EQ(::poll(&polled, 1, 0), 0) << "it would never sleep again";
  }
  executor_.remove_source(sleeper);
}

Task<void> sleep_twice(Executor& executor) {
  std::ignore = co_await executor.sleep(std::chrono::milliseconds(1));
  std::ignore = co_await executor.sleep(std::chrono::milliseconds(1));
}

TEST_F(ExecutorSleep, EndsAtATimer) {
  TestSource sleeper(true);
  executor_.run(sleep_twice(executor_));
  executor_.add_source(sleeper);
  executor_.run(sleep_twice(executor_));
  EXPECT_GE(sleeper.waits, 2);
  executor_.remove_source(sleeper);
}

/// A clock that advances each time somebody reads it.
class TickingClock final : public Clock {
 public:
  MonoTime now() const override { return now_ = now_ + tick; }
  WallTime wall() const override { return {}; }

  Duration tick = std::chrono::microseconds(1);

 private:
  mutable MonoTime now_;
};

/// Has a completion at the `finds`th poll of each wait, or in its sleep.
class PolledSource : public Source {
 public:
  std::size_t poll() override { return ++polls == finds ? 1 : 0; }
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override { return true; }
  bool wake_by(int /*fd*/) override { return true; }
  void wait(Duration /*timeout*/) override { ++waits; }

  int finds = 0;
  int polls = 0;
  int waits = 0;
};

/// Becomes ready again at once, `more` times.
Task<void> pass_on(Executor& executor, int more, std::vector<int>& polls_then, const PolledSource& source) {
  struct Later {
    Executor& executor;
    bool await_ready() { return false; }
    void await_suspend(std::coroutine_handle<> h) { executor.schedule(h); }
    void await_resume() {}
  };
  for (; more > 0; --more) {
    co_await Later{executor};
    polls_then.push_back(source.polls);
  }
}

/// A reply often passes through a few coroutines. A test of the sources between each two of them would cost a system
/// call.
TEST(ExecutorTurn, CoroutinesThatWakeEachOtherRunInOneTurnForAWhile) {
  TickingClock clock;
  Executor executor(clock);
  PolledSource source;
  executor.add_source(source);
  Gate gate(executor);
  std::vector<int> polls;
  spawn(gate, pass_on(executor, 20, polls, source));
  executor.step();
  EXPECT_EQ(source.polls, 1);
  EXPECT_GE(polls.size(), 3U) << "a short chain takes one turn";
  EXPECT_LE(polls.size(), 10U) << "a long one keeps the sources waiting";
  while (executor.step()) {
  }
  EXPECT_EQ(polls.size(), 20U);
  executor.remove_source(source);
}

Task<void> yield_often(Executor& executor, std::vector<int>& polls_then, const PolledSource& source) {
  for (int i = 0; i < 3; ++i) {
    co_await executor.yield();
    polls_then.push_back(source.polls);
  }
}

TEST(ExecutorTurn, AYieldWaitsUntilTheSourcesWereTested) {
  TickingClock clock;
  Executor executor(clock);
  PolledSource source;
  executor.add_source(source);
  std::vector<int> polls;
  executor.run(yield_often(executor, polls, source));
  EXPECT_THAT(polls, testing::ElementsAre(1, 2, 3));
  executor.remove_source(source);
}

/// The posting thread still touches the executor after its function has run. ThreadSanitizer reports it if the executor
/// is destroyed too early.
TEST(ExecutorPost, EndsBeforeTheExecutorDoes) {
  for (int round = 0; round < 200; ++round) {
    SystemClock clock;
    std::optional<Executor> executor(std::in_place, clock);
    bool called = false;
    std::thread other([&] { executor->post([&called] { called = true; }); });
    while (!called) executor->step();
    executor.reset();
    other.join();
  }
}

TEST(ExecutorSpin, SpinsAsLongAsThatFindsWork) {
  TickingClock clock;
  Executor executor(clock, {nullptr, std::chrono::microseconds(100)});
  PolledSource source;
  executor.add_source(source);
  source.finds = 20;
  for (int i = 0; i < 50; ++i, source.polls = 0) executor.sleep_until_event();
  EXPECT_EQ(source.waits, 0) << "each answer came while it polled";

  source.finds = 1'000;  // too late
  int spins = 0;
  for (int i = 0; i < 500; ++i, source.polls = 0) {
    executor.sleep_until_event();
    if (source.polls > 0) ++spins;
  }
  EXPECT_EQ(source.waits, 500);
  EXPECT_LE(spins, 13) << "twice as many waits pass between them each time, up to 64";

  source.finds = 20;
  for (int i = 0; i < 100; ++i, source.polls = 0) executor.sleep_until_event();
  source.waits = 0;
  for (int i = 0; i < 50; ++i, source.polls = 0) executor.sleep_until_event();
  EXPECT_EQ(source.waits, 0) << "the first that finds something makes it poll each time again";
  executor.remove_source(source);
}

TEST(ExecutorSpin, HardlyEverPollsWhileAnotherThreadKeepsTheProcessor) {
  TickingClock clock;
  Executor executor(clock, {nullptr, std::chrono::microseconds(100)});
  PolledSource source;
  executor.add_source(source);
  const auto taken = std::chrono::milliseconds(3);  // by the other thread
  int crowded = 0;
  for (int i = 0; i < 10'000; ++i, source.polls = 0) {
    clock.tick = i % 2 == 0 ? Duration(taken) : std::chrono::microseconds(1);  // sometimes it leaves the processor
    source.finds = 2;
    executor.sleep_until_event();
    if (source.polls == 1) ++crowded;
  }
  EXPECT_LE(crowded, 5) << "16 waits, then 256, then 4096 pass between two of them, also if others find something";

  clock.tick = std::chrono::microseconds(1);
  for (int i = 0; i < 5'000; ++i, source.polls = 0) executor.sleep_until_event();
  source.waits = 0;
  for (int i = 0; i < 50; ++i, source.polls = 0) executor.sleep_until_event();
  EXPECT_EQ(source.waits, 0) << "the other thread is gone";
  executor.remove_source(source);
}

bool stay_on(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(processor), &one);
  return pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
}

/// Finds what another thread has done.
class AnsweredSource final : public PolledSource {
 public:
  std::size_t poll() override { return answered.load() == asked.load() ? 1 : 0; }
  std::atomic<int> asked{0};
  std::atomic<int> answered{0};
};

void answer(AnsweredSource& source, int last) {
  for (int i = 1; i <= last; ++i) {
    source.asked.wait(i - 1);
    source.answered.store(i);
    source.answered.notify_one();
  }
}

/// As a server does that was woken on the processor where its client polls. The clock ticks when it is read. So a poll
/// that gives nobody the processor ends after some microseconds.
TEST(ExecutorSpin, AnotherThreadOfTheProcessorAnswersWhileItPolls) {
  constexpr int kAsked = 100;
  const int processor = sched_getcpu();
  AnsweredSource source;
  std::thread client([&] {
    ASSERT_TRUE(stay_on(processor));
    std::thread server([&] { answer(source, kAsked); });  // stays there, too
    TickingClock clock;
    Executor executor(clock, {nullptr, std::chrono::microseconds(100)});
    executor.add_source(source);
    for (int i = 1; i <= kAsked; ++i) {
      source.asked.store(i);
      source.asked.notify_one();
      executor.sleep_until_event();
      source.answered.wait(i - 1);
    }
    executor.remove_source(source);
    server.join();
  });
  client.join();
  EXPECT_LT(source.waits, kAsked / 2);
}

}  // namespace
}  // namespace spate::job
