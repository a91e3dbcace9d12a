// SPDX-License-Identifier: Apache-2.0
#include "fuse/readers.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

#include "base/unique_fd.h"

namespace spate::fuse {
namespace {

constexpr unsigned kKept = 2;
constexpr int kMany = 200;

struct ReadersTest : testing::Test {
  ReadersTest() {
    readers.start();
    started = 0;
  }

  void let_one_wait() const {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(device.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }
  /// One that is answered without anybody else being needed.
  Readers::Next answer_alone() {
    readers.request_begins(true);
    return readers.request_ends();
  }

  UniqueFd device{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  unsigned started = 0;  // that read, since the beginning
  Readers readers{{device.get(), kKept, 2 * kMany, std::chrono::hours(1)},
                  [this](bool reads) { started += reads ? 1 : 0; }};
};

TEST_F(ReadersTest, ALoneRequestNeedsNoOtherWhileTheExecutorPolls) {
  readers.request_begins(true);
  EXPECT_EQ(readers.poll(), 0U);
  EXPECT_EQ(started, 0U);
  EXPECT_EQ(readers.reading(), 0U);
  EXPECT_EQ(readers.request_ends(), Readers::Next::kRead);
  EXPECT_EQ(readers.reading(), 1U);
}

TEST_F(ReadersTest, AnotherReadsBeforeTheExecutorSleeps) {
  readers.request_begins(true);
  EXPECT_TRUE(readers.prepare_to_wait());
  EXPECT_EQ(started, 1U);
  EXPECT_EQ(readers.reading(), 1U);
  EXPECT_TRUE(readers.prepare_to_wait());
  EXPECT_EQ(started, 1U) << "one is enough";
}

TEST_F(ReadersTest, AnotherReadsWhenARequestWaits) {
  readers.request_begins(true);
  let_one_wait();
  readers.poll();
  EXPECT_EQ(started, 1U);
  readers.poll();
  EXPECT_EQ(started, 1U) << "one is enough";
}

TEST_F(ReadersTest, NobodyIsCalledWhileOneReads) {
  let_one_wait();
  readers.poll();
  readers.prepare_to_wait();
  readers.need_reader();
  EXPECT_EQ(started, 0U);
}

TEST_F(ReadersTest, AnotherReadsAtOnceIfTheRequestMayWaitForMore) {
  readers.request_begins(false);
  EXPECT_EQ(started, 1U);
}

TEST_F(ReadersTest, AnotherReadsAtOnceIfTheExecutorMaySleepForAnEarlierRequest) {
  readers.request_begins(true);
  readers.prepare_to_wait();
  readers.request_begins(true);  // the second worker's, which may wait for something that the first one has
  EXPECT_EQ(started, 2U);
}

TEST_F(ReadersTest, AfterManyLoneRequestsOnlyOneReads) {
  readers.request_begins(true);
  readers.need_reader();
  EXPECT_EQ(readers.request_ends(), Readers::Next::kRead) << "the next may overlap as well";
  EXPECT_EQ(readers.reading(), 2U);
  int answered = 1;
  while (answer_alone() == Readers::Next::kRead && answered < kMany) ++answered;
  EXPECT_LT(answered, kMany);
  EXPECT_GT(answered, kMany / 10);
  EXPECT_EQ(readers.reading(), 1U);
}

TEST_F(ReadersTest, AnAnswerThatTakesLongNowAndThenChangesNothing) {
  for (int i = 0; i < kMany; ++i) ASSERT_EQ(answer_alone(), Readers::Next::kRead);
  for (int i = 0; i < kMany; ++i) {
    readers.request_begins(true);
    readers.prepare_to_wait();
    ASSERT_EQ(readers.request_ends(), Readers::Next::kKeep) << "the one that was called reads";
    for (int j = 0; j < kMany / 20; ++j) ASSERT_EQ(answer_alone(), Readers::Next::kRead);
    ASSERT_EQ(readers.reading(), 1U);
  }
}

TEST_F(ReadersTest, WhereAnswersTakeLongSeveralRead) {
  readers.request_begins(true);
  readers.need_reader();
  EXPECT_EQ(readers.request_ends(), Readers::Next::kRead);
  for (int i = 0; i < kMany; ++i) {
    readers.request_begins(true);
    readers.prepare_to_wait();
    ASSERT_EQ(readers.request_ends(), Readers::Next::kRead);
  }
  EXPECT_EQ(readers.reading(), kKept);
  EXPECT_EQ(started, 1U) << "the other one was reading each time";
}

TEST_F(ReadersTest, WhoIsKeptIsCalledBeforeAThreadIsStarted) {
  bool reads = false;
  std::thread kept([&] { reads = readers.wait_until_called(); });
  while (readers.kept() == 0) std::this_thread::yield();
  readers.request_begins(false);
  kept.join();
  EXPECT_TRUE(reads);
  EXPECT_EQ(started, 0U);
  EXPECT_EQ(readers.reading(), 1U);
}

TEST_F(ReadersTest, WhoIsKeptEndsWhenNobodyIsNeededAnyMore) {
  bool reads = true;
  std::thread kept([&] { reads = readers.wait_until_called(); });
  while (readers.kept() == 0) std::this_thread::yield();
  readers.stop();
  kept.join();
  EXPECT_FALSE(reads);
  readers.request_begins(false);
  EXPECT_EQ(started, 0U) << "nobody is called while they end";
}

TEST_F(ReadersTest, AllHaveEndedWhenEachHasSaidSo) {
  readers.stop();
  EXPECT_FALSE(readers.wait_for_end(std::chrono::milliseconds(0)));
  readers.work_ends(Readers::Next::kRead);
  readers.work_ends(Readers::Next::kKeep);
  EXPECT_TRUE(readers.wait_for_end(std::chrono::milliseconds(0)));
  EXPECT_EQ(readers.reading(), 0U);
}

TEST_F(ReadersTest, OneThatReadsAloneLooksForARequestWithoutSleeping) {
  readers.wait_for_request();  // for an hour, if it looked before many were alone
  for (int i = 0; i < kMany; ++i) ASSERT_EQ(answer_alone(), Readers::Next::kRead);
  std::atomic<bool> waits{false};
  bool found = false;
  std::thread reader([&] {
    readers.wait_for_request();
    found = waits;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it looks by now, else the test finds nothing wrong
  waits = true;
  let_one_wait();
  reader.join();
  EXPECT_TRUE(found);
}

TEST_F(ReadersTest, ThereAreNoMoreThreadsThanAllowed) {
  constexpr unsigned kMost = 6;
  Readers few({device.get(), kKept, kMost, Duration(0)}, [this](bool reads) { started += reads ? 1 : 0; });
  few.start();
  started = 0;
  for (unsigned i = 0; i < kMost - 1; ++i) few.request_begins(false);  // one of those that are kept is not called
  EXPECT_EQ(few.workers(), kMost);
  EXPECT_EQ(started, kMost - kKept);
  EXPECT_EQ(few.at_work(), kMost - 1);
  EXPECT_EQ(few.reading(), 0U);
}

}  // namespace
}  // namespace spate::fuse
