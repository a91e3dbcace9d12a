// SPDX-License-Identifier: Apache-2.0
#include "fuse/page_order.h"

#include <optional>

#include "base/expect.h"
#include "job/executor.h"
#include "job/gate.h"

namespace spate::fuse {
namespace {

constexpr pid_t kWritingThread = 1;
constexpr pid_t kReadingThread = 2;
constexpr Handle kWritten{7};
constexpr PageOrder::Span kPages{4096, 12288};

job::Task<void> read_pages(PageOrder& order, PageOrder::Span span, pid_t caller, bool& done) {
  co_await order.before_read(kWritten, span, caller);
  done = true;
}

struct PageOrderTest : testing::Test {
  /// A read begins. Returns whether it does not wait.
  bool reads(PageOrder::Span span, pid_t caller = kReadingThread) {
    done = false;
    EXPECT_TRUE(spawn(gate, read_pages(order, span, caller, done))) << "the gate is closed";
    turn();
    return done;
  }
  void turn() {
    while (executor.step()) {
    }
  }
  bool doubtful(pid_t caller = kWritingThread) {
    return PageOrder::Write(order, kWritten, kPages, caller, false).doubtful();
  }

  ManualClock clock;
  job::Executor executor{clock};
  job::Gate gate{executor};
  PageOrder order{clock, executor};
  bool done = false;
};

TEST_F(PageOrderTest, AReadWaitsForAWriteOfTheSameBytesThatCameBefore) {
  std::optional<PageOrder::Write> write(std::in_place, order, kWritten, kPages, kWritingThread, false);
  EXPECT_TRUE(order.under_way(kWritten, {0, 4097})) << "one byte is the same";
  EXPECT_FALSE(order.under_way(kWritten, {0, 4096})) << "no byte is the same";
  EXPECT_TRUE(reads({0, 4096})) << "a read of other bytes waits";
  EXPECT_FALSE(reads({12287, 20000})) << "a read does not wait for the write of its first byte";
  write->applied();
  turn();
  EXPECT_TRUE(done) << "the read still waits";
  EXPECT_TRUE(reads(kPages)) << "a read waits for a write that is over";
}

TEST_F(PageOrderTest, AReadDoesNotWaitForLaterWrites) {
  std::optional<PageOrder::Write> first(std::in_place, order, kWritten, kPages, kWritingThread, false);
  EXPECT_FALSE(reads(kPages)) << "it does not wait for the first write";
  const PageOrder::Write second(order, kWritten, kPages, kWritingThread, false);
  first.reset();
  turn();
  EXPECT_TRUE(done) << "it waits for the second write";
}

TEST_F(PageOrderTest, AWriteIsDoubtfulAfterDroppedPagesWereReadByAnotherThread) {
  EXPECT_TRUE(reads(kPages)) << "there is no write";
  EXPECT_FALSE(doubtful()) << "no pages were dropped";
  order.dropping(kWritten, true);
  EXPECT_FALSE(doubtful()) << "nothing was read";
  EXPECT_TRUE(reads({0, 4096})) << "there is no write";
  EXPECT_FALSE(doubtful()) << "other bytes were read";
  EXPECT_TRUE(reads(kPages)) << "there is no write";
  EXPECT_FALSE(doubtful(kReadingThread)) << "the thread wrote after its own read";
  EXPECT_TRUE(reads(kPages)) << "there is no write";
  EXPECT_TRUE(doubtful()) << "the kernel may have had the bytes before the read";
  EXPECT_FALSE(doubtful()) << "nothing was read since the last write";
}

TEST_F(PageOrderTest, ReadsOfSeveralThreadsAreNotTakenForTheWritersOwn) {
  order.dropping(kWritten, true);
  EXPECT_TRUE(reads(kPages)) << "there is no write";
  EXPECT_TRUE(reads(kPages, kWritingThread)) << "there is no write";
  EXPECT_TRUE(doubtful()) << "another thread has read, too";
}

TEST_F(PageOrderTest, WhatWasReadBeforeAllPagesWereDroppedMakesNoDoubt) {
  order.dropping(kWritten, true);
  EXPECT_TRUE(reads(kPages)) << "there is no write";
  order.dropping(kWritten, true);
  EXPECT_FALSE(doubtful()) << "the pages that were read are gone";
  order.dropping(kWritten, true);
  EXPECT_TRUE(reads(kPages)) << "there is no write";
  order.dropping(kWritten, false);
  EXPECT_TRUE(doubtful()) << "the pages that were read may be there";
}

TEST_F(PageOrderTest, PagesThatWereNotDroppedMayHaveBeenReadBefore) {
  order.dropping(kWritten, true);
  EXPECT_TRUE(reads(kPages)) << "there is no write";
  order.dropping(kWritten, true);
  order.not_dropped(kWritten);
  EXPECT_TRUE(doubtful()) << "the pages that were read are there";
}

TEST_F(PageOrderTest, PagesOfAMapDoNotEndTheDoubt) {
  order.dropping(kWritten, true);
  EXPECT_TRUE(reads(kPages)) << "there is no write";
  PageOrder::Write(order, kWritten, kPages, 0, false).is_of_map();
  EXPECT_TRUE(doubtful()) << "the write may have begun before the read";
}

TEST_F(PageOrderTest, DoubtEndsAndLastsHalfAsLongAfterEachDoubtfulWrite) {
  order.dropping(kWritten, true);
  clock.advance(std::chrono::milliseconds(900));
  EXPECT_TRUE(reads(kPages)) << "there is no write";
  EXPECT_TRUE(doubtful()) << "a second is not over";
  order.dropping_again(kWritten);
  clock.advance(std::chrono::milliseconds(600));
  EXPECT_TRUE(reads(kPages)) << "there is no write";
  EXPECT_FALSE(doubtful()) << "half a second is over";
}

TEST_F(PageOrderTest, AWriteThatAnEarlierProcessGotIsDoubtful) {
  EXPECT_TRUE(PageOrder::Write(order, kWritten, kPages, kWritingThread, true).doubtful())
      << "its pages may have been read since";
}

}  // namespace
}  // namespace spate::fuse
