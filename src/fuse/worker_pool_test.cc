// SPDX-License-Identifier: Apache-2.0
#include "fuse/worker_pool.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "base/expect.h"
#include "base/unique_fd.h"
#include "client/blocking.h"

namespace spate::fuse {
namespace {

constexpr unsigned kKept = 2;
constexpr int kMany = 200;

struct WorkerPoolTest : testing::Test {
  WorkerPoolTest() {
    EXPECT_TRUE(workers.start()) << "threads can be started";
    started = 0;
  }

  void let_one_wait() const {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(device.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }
  /// Whether the executor would wake from its sleep.
  bool wakes_executor() const {
    pollfd state{workers.wait_descriptor(), POLLIN, 0};
    return ::poll(&state, 1, 0) != 0;
  }
  /// Runs a request that is answered without another thread's help.
  WorkerPool::Next answer_alone() {
    workers.request_begins(true);
    return workers.request_ends();
  }

  bool note_start(bool reads) {
    if (refuses) return false;
    started += reads ? 1 : 0;
    return true;
  }

  UniqueFd device{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  bool refuses = false;  // no thread can be started
  unsigned started = 0;  // threads that were started as readers, so far
  WorkerPool workers{{device.get(), kKept, 2 * kMany, std::chrono::hours(1)},
                     [this](bool reads) { return note_start(reads); }};
};

TEST_F(WorkerPoolTest, ALoneRequestNeedsNoOtherThreadWhileTheExecutorPolls) {
  workers.request_begins(true);
  EXPECT_EQ(workers.poll(), 0U);
  EXPECT_EQ(started, 0U);
  EXPECT_EQ(workers.reading(), 0U);
  EXPECT_EQ(workers.request_ends(), WorkerPool::Next::kRead);
  EXPECT_EQ(workers.reading(), 1U);
}

TEST_F(WorkerPoolTest, ARequestWakesTheExecutorWhenNoThreadReads) {
  workers.request_begins(true);
  EXPECT_TRUE(workers.prepare_to_wait()) << "the executor must sleep, or the worker would poll forever";
  EXPECT_EQ(started, 0U) << "nobody is called before there is anything to read";
  EXPECT_FALSE(wakes_executor()) << "nothing is there to read";
  let_one_wait();
  EXPECT_TRUE(wakes_executor()) << "a request waits, and no thread reads";
  workers.poll();
  EXPECT_EQ(started, 1U);
  EXPECT_EQ(workers.reading(), 1U);
  EXPECT_TRUE(workers.prepare_to_wait()) << "nothing is left to do";
  EXPECT_FALSE(wakes_executor()) << "the other one reads it";
  EXPECT_EQ(started, 1U) << "one is enough";
}

TEST_F(WorkerPoolTest, ARequestDoesNotWakeTheExecutorWhenNoThreadCanBeCalled) {
  workers.request_begins(true);
  let_one_wait();
  workers.prepare_to_wait();
  EXPECT_TRUE(wakes_executor()) << "a request waits, and a thread can be called";
  workers.stop();
  workers.prepare_to_wait();
  EXPECT_FALSE(wakes_executor()) << "the threads end, so none can be called";
}

TEST_F(WorkerPoolTest, ASlowAnswerCallsNoOtherThread) {
  for (int i = 0; i < kMany; ++i) {
    workers.request_begins(true);
    workers.prepare_to_wait();
    ASSERT_EQ(workers.request_ends(), WorkerPool::Next::kRead);
  }
  EXPECT_EQ(started, 0U);
  EXPECT_EQ(workers.reading(), 1U);
}

TEST_F(WorkerPoolTest, AnotherThreadReadsWhenARequestWaits) {
  workers.request_begins(true);
  let_one_wait();
  workers.poll();
  EXPECT_EQ(started, 1U);
  workers.poll();
  EXPECT_EQ(started, 1U) << "one is enough";
}

TEST_F(WorkerPoolTest, NoThreadIsCalledWhileAnotherReads) {
  let_one_wait();
  workers.poll();
  workers.prepare_to_wait();
  workers.need_reader();
  EXPECT_EQ(started, 0U);
}

TEST_F(WorkerPoolTest, AnotherThreadReadsAtOnceIfTheRequestMayWaitForMore) {
  workers.request_begins(false);
  EXPECT_EQ(started, 1U);
}

TEST_F(WorkerPoolTest, AnotherThreadReadsAtOnceIfTheExecutorMaySleepForAnEarlierRequest) {
  workers.request_begins(true);
  workers.need_reader();
  workers.prepare_to_wait();
  workers.request_begins(true);  // the second worker's request may wait for something that the first one holds
  EXPECT_EQ(started, 2U);
}

TEST_F(WorkerPoolTest, AfterManyLoneRequestsOnlyOneThreadReads) {
  workers.request_begins(true);
  workers.need_reader();
  EXPECT_EQ(workers.request_ends(), WorkerPool::Next::kRead) << "the next may overlap as well";
  EXPECT_EQ(workers.reading(), 2U);
  int answered = 1;
  while (answer_alone() == WorkerPool::Next::kRead && answered < kMany) ++answered;
  EXPECT_LT(answered, kMany);
  EXPECT_GT(answered, kMany / 10);
  EXPECT_EQ(workers.reading(), 1U);
}

TEST_F(WorkerPoolTest, ARequestThatRarelyNeedsAnotherThreadChangesNothing) {
  for (int i = 0; i < kMany; ++i) ASSERT_EQ(answer_alone(), WorkerPool::Next::kRead);
  for (int i = 0; i < kMany; ++i) {
    workers.request_begins(true);
    workers.need_reader();
    ASSERT_EQ(workers.request_ends(), WorkerPool::Next::kKeep) << "the one that was called reads";
    for (int j = 0; j < kMany / 20; ++j) ASSERT_EQ(answer_alone(), WorkerPool::Next::kRead);
    ASSERT_EQ(workers.reading(), 1U);
  }
}

TEST_F(WorkerPoolTest, IfRequestsOverlapSeveralThreadsRead) {
  workers.request_begins(true);
  workers.need_reader();
  for (int i = 0; i < kMany; ++i) {
    workers.request_begins(true);
    ASSERT_EQ(workers.request_ends(), WorkerPool::Next::kRead);
  }
  ASSERT_EQ(workers.request_ends(), WorkerPool::Next::kEnd);
  EXPECT_EQ(workers.reading(), kKept);
  EXPECT_EQ(started, 2U) << "later on the other one was reading each time";
}

TEST_F(WorkerPoolTest, AnIdleThreadIsCalledBeforeANewOneIsStarted) {
  bool reads = false;
  std::thread kept([&] { reads = workers.wait_until_called(); });
  while (workers.kept() == 0) std::this_thread::yield();
  workers.request_begins(false);
  kept.join();
  EXPECT_TRUE(reads) << "it was called, but not to read";
  EXPECT_EQ(started, 0U);
  EXPECT_EQ(workers.reading(), 1U);
}

TEST_F(WorkerPoolTest, IdleThreadsEndWhenNoneIsNeeded) {
  bool reads = true;
  std::thread kept([&] { reads = workers.wait_until_called(); });
  while (workers.kept() == 0) std::this_thread::yield();
  workers.stop();
  kept.join();
  EXPECT_FALSE(reads) << "it was called to read while the threads end";
  workers.request_begins(false);
  EXPECT_EQ(started, 0U) << "nobody is called while they end";
}

TEST_F(WorkerPoolTest, TheStopIsCompleteWhenEachThreadHasReportedItsEnd) {
  workers.stop();
  EXPECT_FALSE(workers.wait_for_end(std::chrono::milliseconds(0))) << "no thread has ended yet";
  workers.work_ends(WorkerPool::Next::kRead);
  workers.work_ends(WorkerPool::Next::kKeep);
  EXPECT_TRUE(workers.wait_for_end(std::chrono::milliseconds(0))) << "both threads have ended";
  EXPECT_EQ(workers.reading(), 0U);
}

TEST_F(WorkerPoolTest, ALoneReaderPollsWithoutSleeping) {
  workers.wait_for_request();  // would last an hour if it polled without many lone requests
  for (int i = 0; i < kMany; ++i) ASSERT_EQ(answer_alone(), WorkerPool::Next::kRead);
  std::atomic<bool> waits{false};
  bool found = false;
  std::thread reader([&] {
    workers.wait_for_request();
    found = waits;
  });
  // It polls by now. If it does not, the test finds no fault.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  waits = true;
  let_one_wait();
  reader.join();
  EXPECT_TRUE(found) << "the reader returned before another one waited";
}

TEST_F(WorkerPoolTest, AReaderThatIsAloneDrivesTheExecutorUntilARequestComes) {
  SystemClock clock;
  job::Executor executor(clock);
  client::Driver driver(executor, client::ProgressMode::kNone);
  WorkerPool its({device.get(), kKept, kMany, Duration(0), [&](const auto& over) { driver.drive_until(over); }},
                 [](bool) { return true; });
  ASSERT_TRUE(its.start()) << "threads can be started";
  executor.add_source(its);
  std::promise<void> recalled;
  std::thread reader([&] { its.wait_for_request(); });
  executor.post([&] { recalled.set_value(); });
  recalled.get_future().wait();  // by the reader, since no other thread drives
  let_one_wait();
  reader.join();
  EXPECT_EQ(its.reading(), 1U);
  its.request_begins(true);
  std::uint64_t count = 0;
  ASSERT_EQ(::read(device.get(), &count, sizeof(count)), static_cast<ssize_t>(sizeof(count)));
  its.need_reader();
  ASSERT_EQ(its.request_ends(), WorkerPool::Next::kRead);
  its.wait_for_request();  // of two readers none drives
  executor.remove_source(its);
}

TEST_F(WorkerPoolTest, ARequestThatComesSoonIsReadWithoutDriving) {
  bool drove = false;
  WorkerPool its({device.get(), kKept, kMany, Duration(0), [&](const auto&) { drove = true; }},
                 [](bool) { return true; });
  ASSERT_TRUE(its.start()) << "threads can be started";
  let_one_wait();
  its.wait_for_request();
  EXPECT_FALSE(drove) << "the request was there before the reader slept";
}

TEST_F(WorkerPoolTest, AReaderReadsIfTheDeviceCannotWakeTheExecutor) {
  SystemClock clock;
  job::Executor executor(clock);
  client::Driver driver(executor, client::ProgressMode::kNone);
  WorkerPool its({-1, kKept, kMany, Duration(0), [&](const auto& over) { driver.drive_until(over); }},
                 [](bool) { return true; });
  ASSERT_TRUE(its.start()) << "threads can be started";
  executor.add_source(its);
  its.wait_for_request();  // returns although no request comes
  executor.remove_source(its);
}

TEST_F(WorkerPoolTest, AnInterruptEndsTheDrivingOfAReader) {
  SystemClock clock;
  job::Executor executor(clock);
  client::Driver driver(executor, client::ProgressMode::kNone);
  WorkerPool its({device.get(), kKept, kMany, Duration(0), [&](const auto& over) { driver.drive_until(over); }},
                 [](bool) { return true; });
  ASSERT_TRUE(its.start()) << "threads can be started";
  executor.add_source(its);
  std::atomic<bool> ended{false};
  std::thread reader([&] {
    its.wait_for_request();
    ended = true;
  });
  its.stop();
  while (!ended) {
    its.interrupt();
    std::this_thread::yield();
  }
  reader.join();
  pollfd state{its.wait_descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, 0), 0) << "nothing is left that would keep the executor awake";
  executor.remove_source(its);
}

TEST_F(WorkerPoolTest, ThereAreNoMoreThreadsThanAllowed) {
  constexpr unsigned kMost = 6;
  WorkerPool few({device.get(), kKept, kMost, Duration(0)}, [this](bool reads) { return note_start(reads); });
  ASSERT_TRUE(few.start()) << "threads can be started";
  started = 0;
  for (unsigned i = 0; i < kMost - 1; ++i) few.request_begins(false);  // one of the kept threads is not called
  EXPECT_EQ(few.workers(), kMost);
  EXPECT_EQ(started, kMost - kKept);
  EXPECT_EQ(few.at_work(), kMost - 1);
  EXPECT_EQ(few.reading(), 0U);
}

TEST_F(WorkerPoolTest, WithoutAnotherThreadTheWorkersThatThereAreGoOn) {
  refuses = true;
  workers.request_begins(false);
  EXPECT_EQ(workers.workers(), kKept);
  EXPECT_EQ(workers.reading(), 0U);
  let_one_wait();
  workers.poll();
  EXPECT_TRUE(workers.prepare_to_wait()) << "the executor must sleep";
  EXPECT_FALSE(wakes_executor()) << "no thread can be started before a request ends";
  EXPECT_EQ(workers.request_ends(), WorkerPool::Next::kRead);
  refuses = false;
  workers.request_begins(false);
  EXPECT_EQ(started, 1U) << "the system is asked again";
  EXPECT_EQ(workers.workers(), kKept + 1);
}

TEST_F(WorkerPoolTest, WithoutAnyThreadThePoolDoesNotStart) {
  refuses = true;
  WorkerPool its({device.get(), kKept, kMany, Duration(0)}, [this](bool reads) { return note_start(reads); });
  EXPECT_FALSE(its.start()) << "nobody would read";
  EXPECT_EQ(its.workers(), 0U);
}

}  // namespace
}  // namespace spate::fuse
