// SPDX-License-Identifier: Apache-2.0
// Bulk data moves in slices, and messages of control connections are reported in between. The tests count bytes, not
// time.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "bmi/tcp/module_fixture.h"

namespace spate::bmi::tcp {
namespace {

constexpr std::uint32_t kSlice = 16 * 1024;
// The most bytes that a slice and one read-ahead move.
constexpr std::uint64_t kAtMost = kSlice + 64 * 1024;
constexpr std::size_t kLarge = 1024 * 1024;

class TcpSlices : public ModuleTest {
 protected:
  void SetUp() override {
    TcpOptions options;
    options.slice_bytes = options.quiet_slice_bytes = kSlice;
    make(options, NetworkOptions());
  }
  /// A peer whose control and bulk connections are both open.
  struct Both {
    RawPeer control;
    RawPeer bulk;
    Address address;
  };
  Both open() {
    const Hello h = hello();
    RawPeer control = connect();
    const Welcome welcome = handshake(control, h);
    Hello second = h;
    second.channel = 1;
    second.token = welcome.token;
    RawPeer bulk = connect();
    handshake(bulk, second);
    const Address address = introduce(control);
    settle();
    std::ignore = control.read();
    return Both{std::move(control), std::move(bulk), address};
  }
  static FrameHeader bulk_frame(std::uint64_t tag, std::uint64_t length) {
    FrameHeader header = frame(FrameType::kReady, tag, length);
    header.message_class = MessageClass::kBulk;
    return header;
  }
  /// Sends the first `size` bytes of a bulk message of kLarge bytes. They are in the module's socket afterwards.
  void begin_bulk(Both& peer, std::size_t size) {
    ASSERT_EQ(::send(peer.bulk.socket(), encode(bulk_frame(1, kLarge)).data(), kHeaderSize, MSG_NOSIGNAL),
              static_cast<ssize_t>(kHeaderSize));
    const Bytes part(size, std::byte{1});
    ASSERT_EQ(::send(peer.bulk.socket(), part.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT), static_cast<ssize_t>(size));
  }
  /// Whether the executor would wake from its sleep.
  testing::AssertionResult readable() const {
    pollfd fd{network_->wait_descriptor(context_), POLLIN, 0};
    if (::poll(&fd, 1, 0) == 1) return testing::AssertionSuccess() << "the wait descriptor is readable";
    return testing::AssertionFailure() << "the wait descriptor is not readable";
  }
  std::uint64_t received() const { return module_->counters().received_bytes; }
  std::uint64_t sent() const { return module_->counters().sent_bytes; }
};

TEST_F(TcpSlices, AControlMessageIsDeliveredBeforeTheRestOfALargeBulkMessageIsRead) {
  Both peer = open();
  Bytes room(kLarge);
  Bytes small(10);
  const OpId large = receive(peer.address, 1, room, MessageClass::kBulk);
  const OpId control = receive(peer.address, 2, small);
  begin_bulk(peer, 300'000);
  EXPECT_TRUE(drive([&] { return received() > kHeaderSize; }));  // the message has begun to leave
  ASSERT_LT(received(), 200'000U);
  const std::uint64_t before = received();
  EXPECT_TRUE(peer.control.write_frame(frame(FrameType::kReady, 2)));
  step();
  EXPECT_TRUE(done(control));
  EXPECT_EQ(received() - before, kHeaderSize) << "the rest waits until it was told";
  EXPECT_FALSE(done(large));
}

TEST_F(TcpSlices, AControlMessageIsDeliveredBeforeTheRestOfALargeBulkMessageIsSent) {
  Both peer = open();
  const Bytes data(kLarge);
  Bytes small(10);
  const OpId control = receive(peer.address, 2, small);
  std::uint64_t before = sent();
  const OpId large = send(peer.address, 1, data, MessageClass::kBulk, true);
  EXPECT_LE(sent() - before, kSlice + kHeaderSize) << "by the post";
  step();
  EXPECT_LE(sent() - before, 2 * kSlice + kHeaderSize);
  before = sent();
  EXPECT_TRUE(peer.control.write_frame(frame(FrameType::kReady, 2)));
  step();
  EXPECT_TRUE(done(control));
  EXPECT_EQ(sent(), before) << "the rest waits until it was told";
  EXPECT_FALSE(done(large));
  std::size_t got = 0;
  EXPECT_TRUE(drive([&] {
    got += peer.bulk.read().size();
    return got >= kLarge + kHeaderSize && done(large);
  }));
}

TEST_F(TcpSlices, BulkDataGoOnBesideControlMessagesWithoutEnd) {
  Both peer = open();
  Bytes room(kLarge);
  const OpId large = receive(peer.address, 1, room, MessageClass::kBulk);
  begin_bulk(peer, 300'000);
  const std::uint64_t before = received();
  std::uint64_t tag = 100;
  int steps = 0;
  for (; steps < 100 && received() - before < 300'000; ++steps) {
    EXPECT_TRUE(peer.control.write_frame(frame(FrameType::kUnexpected, ++tag, 0)));
    step();
  }
  EXPECT_LT(steps, 100);
  EXPECT_FALSE(done(large));
}

TEST_F(TcpSlices, OneBulkConnectionDoesNotWaitForTheEndOfAnother) {
  Both first = open();
  Both second = open();
  Bytes large_room(kLarge);
  Bytes room(10);
  const OpId large = receive(first.address, 1, large_room, MessageClass::kBulk);
  const OpId other = receive(second.address, 1, room, MessageClass::kBulk);
  begin_bulk(first, 300'000);
  const std::uint64_t before = received();
  EXPECT_TRUE(second.bulk.write_frame(bulk_frame(1, 0)));
  EXPECT_EQ(finish(other), Errc::kOk);
  EXPECT_LE(received() - before, 2 * kAtMost + kHeaderSize);
  EXPECT_FALSE(done(large));
}

TEST_F(TcpSlices, BulkMessagesThatArePostedInARowLeaveTogether) {
  Both peer = open();
  const Bytes data(100);
  const std::size_t frame_size = kHeaderSize + data.size();
  step();
  send(peer.address, 1, data, MessageClass::kBulk, true);
  EXPECT_EQ(peer.bulk.read().size(), frame_size) << "the first at once";
  send(peer.address, 1, data, MessageClass::kBulk, true);
  const OpId last = send(peer.address, 1, data, MessageClass::kBulk, true);
  EXPECT_THAT(peer.bulk.read(), testing::IsEmpty());
  EXPECT_TRUE(readable());
  step();
  EXPECT_EQ(peer.bulk.read().size(), 2 * frame_size);
  EXPECT_TRUE(done(last));
}

TEST_F(TcpSlices, ManyPostsInARowMoveWithoutATest) {
  Both peer = open();
  const Bytes data(100);
  for (int i = 0; i < 300; ++i) send(peer.address, 1, data, MessageClass::kBulk, true);
  EXPECT_GE(peer.bulk.read().size(), 200 * (kHeaderSize + data.size()));
}

// A process that polls looks at the socket that was read last more often than at the others.
TEST_F(TcpSlices, ABusyPeerDoesNotStarveAnother) {
  Both first = open();
  Both second = open();
  Bytes room(10);
  const OpId quiet = receive(second.address, 1, room);
  int steps = 0;
  for (std::uint64_t tag = 100; steps < 50 && !done(quiet); ++steps) {
    EXPECT_TRUE(first.control.write_frame(frame(FrameType::kUnexpected, ++tag, 0)));
    if (steps == 20) EXPECT_TRUE(second.control.write_frame(frame(FrameType::kReady, 1)));
    step();
  }
  EXPECT_GT(steps, 20);
  EXPECT_LE(steps, 30);
  const OpId other = receive(second.address, 2, room);
  for (int i = 0; i < 20; ++i) step();  // nobody sends anything
  EXPECT_TRUE(second.control.write_frame(frame(FrameType::kReady, 2)));
  for (int i = 0; i < 10; ++i) step();
  EXPECT_TRUE(done(other));
}

TEST_F(TcpSlices, BulkDataThatIsLeftMakesTheWaitDescriptorReadable) {
  Both peer = open();
  const Bytes data(100'000);
  settle();
  EXPECT_FALSE(readable());
  const OpId large = send(peer.address, 1, data, MessageClass::kBulk, true);
  EXPECT_TRUE(readable()) << "whoever sleeps has to send the rest";
  for (int i = 0; i < 10 && !done(large); ++i) {
    EXPECT_TRUE(readable());
    step();
  }
  EXPECT_TRUE(done(large));
  settle();
  EXPECT_FALSE(readable());
}

TEST_F(TcpSlices, APeerThatIsLostInTheMiddleLeavesNothingBehind) {
  Both peer = open();
  const Bytes data(kLarge);
  const OpId large = send(peer.address, 1, data, MessageClass::kBulk, true);
  EXPECT_TRUE(readable());
  network_->disconnect(peer.address);
  EXPECT_EQ(finish(large), Errc::kConnectionLost);
  settle();
  EXPECT_FALSE(readable());
}

}  // namespace
}  // namespace spate::bmi::tcp
