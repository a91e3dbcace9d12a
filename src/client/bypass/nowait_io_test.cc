// SPDX-License-Identifier: Apache-2.0
#include "client/bypass/nowait_io.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/bytes.h"
#include "base/copy.h"
#include "base/expect.h"
#include "base/expect_bytes.h"

namespace spate::client {
namespace {

constexpr std::size_t kPage = 4096;
using std::chrono::milliseconds;

/// A file in memory that can be slow, and that records the calls.
class FakeFile final : public FileCalls {
 public:
  explicit FakeFile(ManualClock& clock) : clock_(clock) {}

  ssize_t move(const LocalIo::Pieces& pieces, bool is_write, int flags) override {
    const auto address = reinterpret_cast<std::uintptr_t>(pieces.first->iov_base);
    calls.push_back({is_write, (flags & RWF_NOWAIT) != 0, !is_write && copies_slowly(address, pieces.offset)});
    if (fails_with != 0) return -fails_with;
    if (is_write && calls.back().asked && !tells) return -EOPNOTSUPP;
    if (calls.back().asked && would_wait) return -EAGAIN;
    clock_.advance(takes);
    if (is_write) return static_cast<ssize_t>(pieces.first->iov_len);
    if (pieces.offset >= data.size()) return 0;
    const std::size_t size = std::min(pieces.first->iov_len, data.size() - static_cast<std::size_t>(pieces.offset));
    std::memcpy(pieces.first->iov_base, data.data() + pieces.offset, size);
    return static_cast<ssize_t>(size);
  }

  struct Call {
    bool is_write;
    bool asked;  // with RWF_NOWAIT
    bool slow;   // into memory for which the kernel's copy is slow
  };
  std::vector<Call> calls;
  Bytes data;
  Duration takes{0};
  int fails_with = 0;
  bool tells = true;
  bool would_wait = false;

 private:
  ManualClock& clock_;
};

struct NowaitIoTest : testing::Test {
  ssize_t write(bool wait = false) {
    std::byte one{};
    const iovec piece{&one, 1};
    return io.move_pieces({&piece, 1, 0}, true, wait);
  }
  ssize_t read_to(std::byte* to, std::size_t size, std::uint64_t offset) {
    const iovec piece{to, size};
    return io.move_pieces({&piece, 1, offset}, false, false);
  }
  std::size_t calls() const { return file.calls.size(); }

  ManualClock clock;
  FakeFile file{clock};
  WriteLatency latency;
  NowaitIo io{file, latency, clock};
};

TEST_F(NowaitIoTest, AFileSystemThatSupportsNowaitIsAskedEachTime) {
  EXPECT_EQ(write(), 1);
  file.would_wait = true;
  EXPECT_EQ(write(), -EAGAIN);
  EXPECT_EQ(write(true), 1);
  EXPECT_TRUE(file.calls[0].asked);
  EXPECT_TRUE(file.calls[1].asked);
  EXPECT_FALSE(file.calls[2].asked);
}

TEST_F(NowaitIoTest, AFileSystemWithoutNowaitWritesIsAskedOnlyOnce) {
  file.tells = false;
  EXPECT_EQ(write(), 1);
  EXPECT_EQ(write(), 1);
  ASSERT_EQ(calls(), 3U) << "asked, then written twice";
  EXPECT_FALSE(file.calls[1].asked);
  EXPECT_FALSE(file.calls[2].asked);
  NowaitIo other(file, latency, clock);
  std::byte one{};
  const iovec piece{&one, 1};
  EXPECT_EQ(other.move_pieces({&piece, 1, 0}, true, false), 1);
  EXPECT_EQ(calls(), 4U) << "nor for another file of the same device";
}

TEST_F(NowaitIoTest, AfterAWriteThatWaitedTheNextOnesAreForAThread) {
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

TEST_F(NowaitIoTest, AnErrorEndsTheMoveAndAWaitIsLeftToTheBlockingCall) {
  file.fails_with = ENOSPC;
  EXPECT_EQ(write(), -EAGAIN);
  EXPECT_EQ(write(true), -ENOSPC);
  latency.does_not_tell();
  EXPECT_EQ(write(), -ENOSPC);
  file.fails_with = EINTR;
  EXPECT_EQ(write(), -EINTR);
}

TEST_F(NowaitIoTest, AFileInMemoryIsNeverAsked) {
  file.would_wait = true;
  io.never_waits();
  EXPECT_EQ(write(), 1);
  EXPECT_FALSE(file.calls[0].asked);
}

TEST_F(NowaitIoTest, AReadNeverLetsTheKernelCopyToAPlaceWhereThatIsSlow) {
  file.data.resize(50 * kPage + 100);
  for (std::size_t i = 0; i < file.data.size(); ++i) file.data[i] = static_cast<std::byte>(i * 7 + i / 251);
  Buffer memory(60 * kPage, kPage);
  std::byte* const to = memory.data() + 16;
  EXPECT_EQ(read_to(to, 40 * kPage, kPage), static_cast<ssize_t>(40 * kPage));
  EXPECT_BYTES(ByteView(to, 40 * kPage), ByteView(file.data).subspan(kPage, 40 * kPage));
  EXPECT_GE(calls(), 1U);
  EXPECT_TRUE(std::none_of(file.calls.begin(), file.calls.end(), [](const FakeFile::Call& call) { return call.slow; }));
  EXPECT_EQ(read_to(to, 40 * kPage, 40 * kPage), static_cast<ssize_t>(10 * kPage + 100)) << "up to its end";
  EXPECT_BYTES(ByteView(to, 10 * kPage + 100), ByteView(file.data).subspan(40 * kPage));
  EXPECT_EQ(read_to(to, 40 * kPage, 60 * kPage), 0) << "and behind it";
}

TEST_F(NowaitIoTest, AReadToAnyOtherPlaceIsOneCallWithTheCallersMemory) {
  file.data.resize(50 * kPage);
  Buffer memory(60 * kPage, kPage);
  EXPECT_EQ(read_to(memory.data(), 40 * kPage, kPage), static_cast<ssize_t>(40 * kPage));
  EXPECT_EQ(read_to(memory.data() + 2048, 40 * kPage, kPage), static_cast<ssize_t>(40 * kPage));
  EXPECT_EQ(calls(), 2U);
}

TEST_F(NowaitIoTest, AReadThatWouldWaitReturnsEagain) {
  file.would_wait = true;
  Buffer memory(60 * kPage, kPage);
  EXPECT_EQ(read_to(memory.data() + 16, 40 * kPage, 0), -EAGAIN);
  EXPECT_EQ(calls(), 1U);
}

}  // namespace
}  // namespace spate::client
