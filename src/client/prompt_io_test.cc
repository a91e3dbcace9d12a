// SPDX-License-Identifier: Apache-2.0
#include "client/prompt_io.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>


namespace spate::client {
namespace {

using std::chrono::milliseconds;

/// A file in memory that takes its time and remembers what was asked.
class FakeFile final : public FileCalls {
 public:
  explicit FakeFile(ManualClock& clock) : clock_(clock) {}

  ssize_t move(const LocalIo::Pieces& pieces, bool is_write, int flags) override {
    calls.push_back({is_write, (flags & RWF_NOWAIT) != 0});
    if (fails_with != 0) return -fails_with;
    if (is_write && calls.back().asked && !tells) return -EOPNOTSUPP;
    if (calls.back().asked && would_wait) return -EAGAIN;
    clock_.advance(takes);
    return static_cast<ssize_t>(pieces.first->iov_len);
  }

  struct Call {
    bool is_write;
    bool asked;  // not to wait
  };
  std::vector<Call> calls;
  Duration takes{0};
  int fails_with = 0;
  bool tells = true;
  bool would_wait = false;

 private:
  ManualClock& clock_;
};

struct PromptIoTest : testing::Test {
  ssize_t write(bool wait = false) {
    std::byte one{};
    const iovec piece{&one, 1};
    return io.move_pieces({&piece, 1, 0}, true, wait);
  }
  std::size_t calls() const { return file.calls.size(); }

  ManualClock clock;
  FakeFile file{clock};
  WriteHabits habits;
  PromptIo io{file, habits, clock};
};

TEST_F(PromptIoTest, AFileSystemThatTellsIsAskedEachTime) {
  EXPECT_EQ(write(), 1);
  file.would_wait = true;
  EXPECT_EQ(write(), -EAGAIN);
  EXPECT_EQ(write(true), 1);
  EXPECT_TRUE(file.calls[0].asked && file.calls[1].asked);
  EXPECT_FALSE(file.calls[2].asked);
}

TEST_F(PromptIoTest, OneThatDoesNotTellIsAskedOnceAndWrittenToAtOnce) {
  file.tells = false;
  EXPECT_EQ(write(), 1);
  EXPECT_EQ(write(), 1);
  ASSERT_EQ(calls(), 3U) << "asked, then written twice";
  EXPECT_FALSE(file.calls[1].asked);
  EXPECT_FALSE(file.calls[2].asked);
  PromptIo other(file, habits, clock);
  std::byte one{};
  const iovec piece{&one, 1};
  EXPECT_EQ(other.move_pieces({&piece, 1, 0}, true, false), 1);
  EXPECT_EQ(calls(), 4U) << "nor for another file of the same device";
}

TEST_F(PromptIoTest, AfterAWriteThatWaitedTheNextOnesAreForAThread) {
  file.tells = false;
  file.takes = milliseconds(50);
  EXPECT_EQ(write(), 1);
  const std::size_t before = calls();
  EXPECT_EQ(write(), -EAGAIN);
  EXPECT_EQ(calls(), before) << "it was not tried";
  EXPECT_EQ(write(true), 1);
  clock.advance(milliseconds(101));
  EXPECT_EQ(write(), 1) << "later it is";
  clock.advance(milliseconds(101));
  EXPECT_EQ(write(), -EAGAIN) << "it waited again: the pause is longer";
  clock.advance(milliseconds(100));
  file.takes = milliseconds(1);
  EXPECT_EQ(write(), 1);
  EXPECT_EQ(write(), 1) << "prompt again";
  file.takes = milliseconds(50);
  EXPECT_EQ(write(), 1);
  clock.advance(milliseconds(101));
  EXPECT_EQ(write(), 1) << "and the pause as short as the first";
}

TEST_F(PromptIoTest, WhatFailsAtOnceFailsAndWhatMayWaitIsLeftToTheWaitingWay) {
  file.fails_with = ENOSPC;
  EXPECT_EQ(write(), -EAGAIN);
  EXPECT_EQ(write(true), -ENOSPC);
  habits.does_not_tell();
  EXPECT_EQ(write(), -ENOSPC);
  file.fails_with = EINTR;
  EXPECT_EQ(write(), -EINTR);
}

TEST_F(PromptIoTest, AFileInMemoryIsNeverAsked) {
  file.would_wait = true;
  io.never_waits();
  EXPECT_EQ(write(), 1);
  EXPECT_FALSE(file.calls[0].asked);
}

}  // namespace
}  // namespace spate::client
