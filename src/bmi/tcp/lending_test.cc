// SPDX-License-Identifier: Apache-2.0
// Large bulk messages leave from the sender's own memory (MSG_ZEROCOPY). Their operations end when the kernel needs the
// memory no more. On one machine the kernel copies it for the receiver, which changes nothing here.
#include <algorithm>

#include "base/expect_bytes.h"
#include "bmi/tcp/module_fixture.h"
#include "bmi/tcp/send_queue.h"
#include "bmi/tcp/zero_copy_sends.h"

namespace spate::bmi::tcp {
namespace {

constexpr std::size_t kBytes = 300'003;

class LendingTest : public ModuleTest {
 protected:
  void SetUp() override {
    const UniqueFd one(::socket(AF_INET, SOCK_STREAM, 0));
    if (!ZeroCopySends::enable(one.get())) GTEST_SKIP() << "this kernel has no MSG_ZEROCOPY";
    make_lending(TcpOptions::Lend::kAlways);
  }
  void make_lending(TcpOptions::Lend lend) {
    TcpOptions options;
    options.lend = lend;
    make(options, NetworkOptions());
    for (std::size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<std::byte>(i % 211);
    const Hello h = hello();
    control_.emplace(connect());
    const Welcome welcome = handshake(*control_, h);
    Hello second = h;
    second.channel = 1;
    second.token = welcome.token;
    bulk_.emplace(connect());
    handshake(*bulk_, second);
    address_ = introduce(*control_);
    settle();
    std::ignore = control_->read();
  }
  /// Reads everything that comes until the operation has ended.
  Bytes take_until_done(OpId op, std::size_t bytes) {
    Bytes got;
    EXPECT_TRUE(drive([&] {
      const Bytes more = bulk_->read();
      got.insert(got.end(), more.begin(), more.end());
      return done(op) && got.size() >= bytes;
    }));
    return got;
  }
  /// Makes the peer's socket small, so that most of a message stays with the sender's kernel.
  void narrow() const {
    const int bytes = 16 * 1024;
    EXPECT_EQ(::setsockopt(bulk_->socket(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
  }

  Bytes data_ = Bytes(kBytes);
  std::optional<RawPeer> control_;
  std::optional<RawPeer> bulk_;
  Address address_;
};

TEST_F(LendingTest, AMessageArrivesAndNothingOfItWasCopiedByThisSide) {
  const OpId op = send(address_, 1, data_, MessageClass::kBulk, true);
  const Bytes got = take_until_done(op, kHeaderSize + kBytes);
  EXPECT_EQ(finish(op), Errc::kOk);
  EXPECT_BYTES(ByteView(got).subspan(kHeaderSize), data_);
  const TcpCounters counters = module_->counters();
  EXPECT_EQ(counters.lent_bytes, kBytes);
  EXPECT_GT(counters.zero_copy_sends, 0U);
  EXPECT_EQ(counters.zero_copy_sends_copied, counters.zero_copy_sends);
}

TEST_F(LendingTest, ASendIsInFlightWhileTheKernelReadsItsMemory) {
  narrow();
  const OpId op = send(address_, 1, data_, MessageClass::kBulk, true);
  settle();
  EXPECT_EQ(module_->counters().lent_bytes, kBytes) << "the socket has taken all of it";
  EXPECT_FALSE(done(op)) << "what is not with the peer yet is still in the sender's memory only";
  const Bytes got = take_until_done(op, kHeaderSize + kBytes);
  EXPECT_BYTES(ByteView(got).subspan(kHeaderSize), data_);
}

TEST_F(LendingTest, ACancelledSendToASlowPeerEndsWithTheConnectionAndItsMemoryIsNotSent) {
  narrow();
  const OpId op = send(address_, 1, data_, MessageClass::kBulk, true);
  settle();
  network_->cancel(op);
  settle();
  EXPECT_FALSE(done(op));
  clock_.advance(std::chrono::seconds(2));
  EXPECT_EQ(finish(op), Errc::kConnectionLost);
  std::fill(data_.begin(), data_.end(), std::byte{0xEE});  // the memory is the caller's again
  Bytes got;
  EXPECT_TRUE(drive([&] {
    const Bytes more = bulk_->read();
    got.insert(got.end(), more.begin(), more.end());
    return bulk_->ended();
  }));
  EXPECT_LT(got.size(), kBytes / 2);
  EXPECT_EQ(std::ranges::count(got, std::byte{0xEE}), 0) << "bytes that were written later have been sent";
}

TEST_F(LendingTest, SmallMessagesAreCopied) {
  const Bytes small(SendQueue::kLendFrom - 1, std::byte{3});
  const OpId op = send(address_, 1, small, MessageClass::kBulk, true);
  take_until_done(op, kHeaderSize + small.size());
  EXPECT_EQ(module_->counters().lent_bytes, 0U);
}

TEST_F(LendingTest, OnTheSameMachineNothingIsLentUnlessConfigured) {
  network_.reset();
  make_lending(TcpOptions::Lend::kAuto);
  const OpId op = send(address_, 1, data_, MessageClass::kBulk, true);
  take_until_done(op, kHeaderSize + kBytes);
  EXPECT_EQ(module_->counters().lent_bytes, 0U);
}

}  // namespace
}  // namespace spate::bmi::tcp
