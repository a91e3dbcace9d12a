// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/send_queue.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/expect.h"
#include "base/expect_bytes.h"
#include "base/unique_fd.h"

namespace spate::bmi::tcp {
namespace {

class SendQueueTest : public testing::Test, public SendObserver {
 protected:
  SendQueueTest() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    near_.reset(pair[0]);
    far_.reset(pair[1]);
  }
  void sent(Op& op) override { sent_.push_back(op.tag); }
  void told(OpId op) override { told_.push_back(op.value); }

  Op& op(std::uint64_t tag, std::vector<Segment> segments) {
    ops_.push_back(std::make_unique<Op>());
    Op& op = *ops_.back();
    op.tag = tag;
    op.segments.assign(segments);
    op.cursor = SegmentCursor(op.segments.view());
    return op;
  }
  static FrameHeader header(std::uint64_t tag) {
    FrameHeader h;
    h.tag = tag;
    return h;
  }
  FlushStatus flush() { return queue_.flush(near_.get(), *this, *scratch_, limit_); }
  /// Reads everything that is there.
  Bytes take() {
    Bytes all;
    std::array<std::byte, 4096> part;
    for (ssize_t n = 0; (n = ::read(far_.get(), part.data(), part.size())) > 0;) {
      all.insert(all.end(), part.begin(), part.begin() + n);
    }
    return all;
  }
  static UniqueFd file(std::string_view content) {
    UniqueFd fd(::open("/tmp", O_TMPFILE | O_RDWR, 0600));
    EXPECT_EQ(::write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
    return fd;
  }

  std::uint64_t limit_ = 1ULL << 30U;
  UniqueFd near_;
  UniqueFd far_;
  SendQueue queue_;
  std::unique_ptr<SendScratch> scratch_ = std::make_unique<SendScratch>();
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<std::uint64_t> told_;
  std::vector<std::uint64_t> sent_;
};

TEST_F(SendQueueTest, FramesLeaveInOrderWithTheirPayload) {
  queue_.push(header(1), 0,
              &op(1, {Segment::of(as_bytes("ab")), Segment::of(ByteView()), Segment::of(as_bytes("cde"))}));
  queue_.push(header(2), 0, nullptr);
  queue_.push(header(3), 0, &op(3, {}));
  EXPECT_EQ(queue_.answers(), 1U);
  EXPECT_EQ(flush(), FlushStatus::kEmpty);
  EXPECT_EQ(sent_, (std::vector<std::uint64_t>{1, 3}));
  const Bytes got = take();
  ASSERT_EQ(got.size(), 3 * kHeaderSize + 5);
  EXPECT_EQ(as_text(ByteView(got).subspan(kHeaderSize, 5)), "abcde");
  EXPECT_EQ(decode_frame(got.data() + kHeaderSize + 5)->tag, 2U);
  EXPECT_EQ(decode_frame(got.data() + 2 * kHeaderSize + 5)->tag, 3U);
  EXPECT_EQ(queue_.answers(), 0U);
}

TEST_F(SendQueueTest, AFullSocketBlocksAndGoesOnWhereItStopped) {
  Bytes data(3 * 1024 * 1024);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + i / 4096);
  queue_.push(header(1), 0,
              &op(1, {Segment::of(ByteView(data).first(1'000'000)), Segment::of(ByteView(data).subspan(1'000'000))}));
  queue_.push(header(2), 0, &op(2, {Segment::of(as_bytes("end"))}));
  Bytes got;
  int blocked = 0;
  for (FlushStatus status = FlushStatus::kBlocked; status != FlushStatus::kEmpty;) {
    status = flush();
    ASSERT_NE(status, FlushStatus::kLost);
    if (status == FlushStatus::kBlocked) ++blocked;
    const Bytes part = take();
    got.insert(got.end(), part.begin(), part.end());
  }
  EXPECT_GT(blocked, 0);
  ASSERT_EQ(got.size(), 2 * kHeaderSize + data.size() + 3);
  EXPECT_BYTES(ByteView(got).subspan(kHeaderSize, data.size()), data);
  EXPECT_EQ(sent_.size(), 2U);
}

TEST_F(SendQueueTest, ALimitIsKeptTo) {
  const Bytes data(50'000, std::byte{7});
  const UniqueFd fd = file(std::string(30'000, 'x'));
  queue_.push(header(1), 0, &op(1, {Segment::of(ByteView(data)), Segment::of_file(fd.get(), 0, 30'000)}));
  queue_.push(header(2), 0, nullptr);
  limit_ = 20'000;
  std::vector<std::size_t> parts;
  FlushStatus status = FlushStatus::kMore;
  for (; status == FlushStatus::kMore; parts.push_back(take().size())) status = flush();
  EXPECT_EQ(status, FlushStatus::kEmpty);
  EXPECT_EQ(parts, (std::vector<std::size_t>{20'000, 20'000, 20'000, 20'000 + kHeaderSize, kHeaderSize}))
      << "the end of a frame does not wait for another turn";
  EXPECT_EQ(sent_, (std::vector<std::uint64_t>{1}));
}

TEST_F(SendQueueTest, FilesAndMemoryMix) {
  const UniqueFd fd = file("0123456789");
  queue_.push(header(1), 0,
              &op(1, {Segment::of(as_bytes("<")), Segment::of_file(fd.get(), 2, 5), Segment::of(as_bytes(">")),
                      Segment::of_file(fd.get(), 0, 1)}));
  queue_.push(header(2), 0, nullptr);
  EXPECT_EQ(flush(), FlushStatus::kEmpty);
  const Bytes got = take();
  ASSERT_EQ(got.size(), 2 * kHeaderSize + 8);
  EXPECT_EQ(as_text(ByteView(got).subspan(kHeaderSize, 8)), "<23456>0");
}

TEST_F(SendQueueTest, ATruncatedFileIsFilledWithZeros) {
  const UniqueFd fd = file("abc");
  queue_.push(
      header(1), 0,
      &op(1, {Segment::of_file(fd.get(), 1, 100'000), Segment::of(as_bytes("!")), Segment::of_file(fd.get(), 0, 2)}));
  Bytes got;
  while (flush() == FlushStatus::kBlocked) {
    const Bytes part = take();
    got.insert(got.end(), part.begin(), part.end());
  }
  const Bytes rest = take();
  got.insert(got.end(), rest.begin(), rest.end());
  ASSERT_EQ(got.size(), kHeaderSize + 100'000 + 1 + 2);
  const ByteView payload = ByteView(got).subspan(kHeaderSize);
  EXPECT_EQ(as_text(payload.first(2)), "bc");
  for (std::size_t i = 2; i < 100'000; ++i) ASSERT_EQ(payload[i], std::byte{0}) << i;
  EXPECT_EQ(as_text(payload.subspan(100'000)), "!ab");  // the next segments are unchanged
}

TEST_F(SendQueueTest, ReportsAFileThatCannotBeRead) {
  const std::string path = "/tmp/spate_send_queue_test_" + std::to_string(::getpid());
  const UniqueFd write_only(::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600));
  ::unlink(path.c_str());
  ASSERT_TRUE(write_only) << path << ": " << std::strerror(errno);
  queue_.push(header(1), 0, &op(1, {Segment::of_file(write_only.get(), 0, 10)}));
  EXPECT_EQ(flush(), FlushStatus::kBadFile);
  EXPECT_EQ(queue_.error_number(), EBADF);
  EXPECT_EQ(queue_.front_op()->tag, 1U);
}

TEST_F(SendQueueTest, AFileThatCannotBeSplicedIsReadAndSent) {
  // On many kernels a procfs file has no pages to splice, but it can be read.
  const UniqueFd status(::open("/proc/self/cmdline", O_RDONLY));
  ASSERT_TRUE(status) << "/proc/self/cmdline: " << std::strerror(errno);
  std::array<char, 4> expected{};
  ASSERT_EQ(::pread(status.get(), expected.data(), expected.size(), 0), 4);
  queue_.push(header(1), 0, &op(1, {Segment::of_file(status.get(), 0, 4)}));
  EXPECT_EQ(flush(), FlushStatus::kEmpty);
  const Bytes got = take();
  ASSERT_EQ(got.size(), kHeaderSize + 4);
  EXPECT_EQ(as_text(ByteView(got).subspan(kHeaderSize)), std::string_view(expected.data(), 4));
}

TEST_F(SendQueueTest, AFrameThatHasNotBegunCanBeWithdrawn) {
  Op& first = op(1, {Segment::of(as_bytes("one"))});
  Op& second = op(2, {Segment::of(as_bytes("two"))});
  Op& third = op(3, {Segment::of(as_bytes("three"))});
  queue_.push(header(1), 0, &first);
  queue_.push(header(2), 0, &second);
  queue_.push(header(3), 0, &third);
  EXPECT_TRUE(queue_.withdraw(second, nullptr)) << "nothing of the frame has left";
  const FrameHeader substitute = header(99);
  EXPECT_TRUE(queue_.withdraw(first, &substitute)) << "nothing of the frame has left";
  EXPECT_EQ(flush(), FlushStatus::kEmpty);
  EXPECT_EQ(sent_, (std::vector<std::uint64_t>{3}));
  const Bytes got = take();
  ASSERT_EQ(got.size(), 2 * kHeaderSize + 5);
  EXPECT_EQ(decode_frame(got.data())->tag, 99U);
  EXPECT_EQ(decode_frame(got.data() + kHeaderSize)->tag, 3U);
}

TEST_F(SendQueueTest, AFrameThatHasBegunCannotBeWithdrawn) {
  const Bytes data(2 * 1024 * 1024);
  Op& large = op(1, {Segment::of(ByteView(data))});
  queue_.push(header(1), 0, &large);
  ASSERT_EQ(flush(), FlushStatus::kBlocked);
  EXPECT_FALSE(queue_.withdraw(large, nullptr)) << "a part of the frame has left";
  EXPECT_TRUE(queue_.is_front(large.position)) << "the frame has not ended";
}

extern "C" void on_pipe_signal(int /*signal*/);
volatile std::sig_atomic_t pipe_signals = 0;
void on_pipe_signal(int /*signal*/) { pipe_signals = pipe_signals + 1; }

TEST_F(SendQueueTest, AClosedPeerRaisesNoSignal) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = on_pipe_signal;
  ASSERT_EQ(::sigaction(SIGPIPE, &action, &before), 0);
  const UniqueFd fd = file("0123456789");
  far_.reset();
  queue_.push(header(1), 0, &op(1, {Segment::of_file(fd.get(), 0, 10)}));
  EXPECT_EQ(flush(), FlushStatus::kLost);
  // The same after the header has left: the socket breaks in the middle of the file.
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  near_.reset(pair[0]);
  far_.reset(pair[1]);
  const UniqueFd large(::open("/tmp", O_TMPFILE | O_RDWR, 0600));
  ASSERT_EQ(::ftruncate(large.get(), 8 * 1024 * 1024), 0);
  SendQueue queue;
  queue.push(header(2), 0, &op(2, {Segment::of_file(large.get(), 0, 8 * 1024 * 1024)}));
  ASSERT_EQ(queue.flush(near_.get(), *this, *scratch_, limit_), FlushStatus::kBlocked);
  far_.reset();
  EXPECT_EQ(queue.flush(near_.get(), *this, *scratch_, limit_), FlushStatus::kLost);
  EXPECT_EQ(pipe_signals, 0);
  ASSERT_EQ(::sigaction(SIGPIPE, &before, nullptr), 0);
}

/// Over TCP on one machine. The kernel takes lent memory there, too, but copies it for the receiver and reports that.
class LendingQueueTest : public SendQueueTest {
 protected:
  LendingQueueTest() {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    near_.reset(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::connect(near_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    far_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
    lends_ = ZeroCopySends::enable(near_.get());
    queue_.lend(lends_);
  }
  /// Reads until `bytes` have come, while the queue is flushed.
  Bytes take_all(std::size_t bytes) {
    Bytes all;
    while (all.size() < bytes) {
      EXPECT_NE(flush(), FlushStatus::kLost);
      const Bytes more = take();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
  bool lends_ = false;
};

TEST_F(LendingQueueTest, LargeMemoryIsInUseUntilTheKernelReportsItsEndAndSmallMemoryIsCopied) {
  if (!lends_) GTEST_SKIP() << "this kernel has no MSG_ZEROCOPY";
  Bytes small(1000, std::byte{1});
  Bytes large(3 * SendQueue::kLendFrom + 5);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 7 / 3);
  Op& first = op(1, {Segment::of(ByteView(small))});
  first.size = small.size();
  Op& second = op(2, {Segment::of(ByteView(large).first(100)), Segment::of(ByteView(large).subspan(100))});
  second.size = large.size();
  second.id = OpId(77);
  queue_.push(header(1), 0, &first);
  queue_.push(header(2), 0, &second);
  const Bytes all = take_all(2 * kHeaderSize + small.size() + large.size());
  EXPECT_BYTES(ByteView(all).last(large.size()), large);
  EXPECT_EQ(sent_, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(first.uses, 0U);
  EXPECT_GT(second.uses, 0U) << "its memory was copied";
  EXPECT_EQ(queue_.bytes_lent(), large.size());
  EXPECT_TRUE(queue_.has_lent(second.position)) << "the kernel has reported nothing yet";
  EXPECT_FALSE(queue_.has_lent(first.position)) << "small memory is copied";
  ZeroCopySends::Reports reports;
  while (queue_.has_lent()) {
    const ZeroCopySends::Reports more = queue_.take_reports(near_.get(), *this);
    reports.calls += more.calls;
    reports.copied += more.copied;
  }
  EXPECT_EQ(reports.calls, second.uses);
  EXPECT_EQ(reports.copied, reports.calls) << "on one machine there is no device that could read it";
  EXPECT_EQ(told_, std::vector<std::uint64_t>(second.uses, 77));
}

}  // namespace
}  // namespace spate::bmi::tcp
