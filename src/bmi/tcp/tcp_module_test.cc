// SPDX-License-Identifier: Apache-2.0
// Features of TCP only: frames on the wire, and connections that come and go. Features of every module: tests/bmi.
#include <fcntl.h>
#include <gmock/gmock.h>

#include <optional>

#include "base/expect.h"
#include "bmi/tcp/raw_peer_test.h"

namespace spate::bmi::tcp {
namespace {

using Tcp = RawPeerTest;

TEST_F(Tcp, SmallMessagesAreEagerAndReadyOnesAreNotCharged) {
  RawPeer peer = connect();
  handshake_and_introduce(peer, hello());
  const Bytes data = to_bytes(as_bytes("hello"));
  EXPECT_EQ(finish(send(address_, 1, data)), Errc::kOk);
  EXPECT_EQ(next_frame(peer)->type, FrameType::kEager);
  EXPECT_EQ(as_text(payload_), "hello");
  EXPECT_EQ(finish(send(address_, 1, data, MessageClass::kControl, true)), Errc::kOk);
  EXPECT_EQ(next_frame(peer)->type, FrameType::kReady);
}

TEST_F(Tcp, WithoutCreditMessagesAreAnnouncedAndUnexpectedOnesWait) {
  Hello h = hello();
  h.limits = {2 * cost_of(1000), 744, 10};  // half of the window is reserved for unexpected messages
  RawPeer peer = connect();
  handshake_and_introduce(peer, h);
  const Bytes data(1000);
  std::vector<FrameType> types;
  for (int i = 0; i < 3; ++i) {
    send(address_, 1, data);
    types.push_back(next_frame(peer)->type);
  }
  EXPECT_EQ(types, (std::vector{FrameType::kEager, FrameType::kAnnounce, FrameType::kAnnounce}));
  const Bytes request(744);
  const std::array segments{Segment::of(ByteView(request))};
  const OpId first = noted(network_->post_send_unexpected(message(address_, 5, segments), context_, nullptr));
  const OpId second = noted(network_->post_send_unexpected(message(address_, 6, segments), context_, nullptr));
  EXPECT_EQ(next_frame(peer)->tag, 5U);
  settle();
  EXPECT_TRUE(done(first));
  EXPECT_FALSE(done(second));
  FrameHeader credit = frame(kCredit);
  credit.credit = 1000;
  EXPECT_TRUE(peer.write_frame(credit));
  EXPECT_EQ(next_frame(peer)->tag, 6U);
  EXPECT_EQ(finish(second), Errc::kOk);
}

TEST_F(Tcp, AnUnexpectedMessageThatThePeerDoesNotTakeFails) {
  Hello h = hello();
  h.limits.max_unexpected = 100;
  RawPeer peer = connect();
  handshake_and_introduce(peer, h);
  const Bytes data(101);
  const std::array segments{Segment::of(ByteView(data))};
  EXPECT_EQ(finish(noted(network_->post_send_unexpected(message(address_, 5, segments), context_, nullptr))),
            Errc::kMessageTooBig);
}

TEST_F(Tcp, MessagesWaitInOrderUntilThePeerHasRoomForTheirAnnouncements) {
  Hello h = hello();
  h.limits.max_announced = 2;
  RawPeer peer = connect();
  handshake_and_introduce(peer, h);
  const Bytes large(100'000);
  const Bytes small(10);
  std::vector<OpId> ops;
  for (int i = 0; i < 3; ++i) ops.push_back(send(address_, 1, large));
  ops.push_back(send(address_, 1, small));  // it must not overtake
  const FrameHeader first = *next_frame(peer);
  EXPECT_EQ(first.type, FrameType::kAnnounce);
  EXPECT_EQ(first.length, large.size());
  EXPECT_EQ(next_frame(peer)->type, FrameType::kAnnounce);
  settle();
  EXPECT_THAT(peer.read(), testing::IsEmpty());
  FrameHeader clear = frame(FrameType::kClear, 4711);
  clear.id = first.id;
  EXPECT_TRUE(peer.write_frame(clear));
  EXPECT_EQ(next_frame(peer)->id, 4711U);  // the data ...
  EXPECT_EQ(payload_.size(), large.size());
  EXPECT_EQ(next_frame(peer)->type, FrameType::kAnnounce);  // ... then the third one, then the small one
  EXPECT_EQ(next_frame(peer)->type, FrameType::kEager);
  EXPECT_EQ(finish(ops[0]), Errc::kOk);
}

TEST_F(Tcp, AMessageForAReceiveThatIsGoneIsDroppedAndCounted) {
  RawPeer peer = connect();
  handshake_and_introduce(peer, hello());
  const Bytes data(70'000);
  EXPECT_TRUE(peer.write_frame(frame(FrameType::kReady, 1, data.size()), data));
  EXPECT_TRUE(peer.write_frame(data_for(OpId(12345), data.size()), data));
  EXPECT_NE(introduce(peer), Address()) << "the connection has ended";
  EXPECT_EQ(module_->counters().dropped_messages, 2U);
}

TEST_F(Tcp, AnAcceptorAsksForTheBulkConnection) {
  RawPeer peer = connect();
  const Hello h = hello();
  handshake_and_introduce(peer, h);
  const Bytes data(10);
  const OpId op = send(address_, 1, data, MessageClass::kBulk);
  EXPECT_EQ(next_frame(peer)->type, kOpenBulk);
  EXPECT_FALSE(done(op));
  Hello bulk = h;
  bulk.channel = 1;
  bulk.token = welcome_.token;
  RawPeer second = connect();
  EXPECT_EQ(handshake(second, bulk).status, Errc::kOk);
  EXPECT_EQ(finish(op), Errc::kOk);
}

TEST_F(Tcp, ThePeerIsLostWithEitherConnection) {
  RawPeer peer = connect();
  const Hello h = hello();
  handshake_and_introduce(peer, h);
  Hello bulk = h;
  bulk.channel = 1;
  bulk.token = welcome_.token;
  RawPeer second = connect();
  handshake(second, bulk);
  Bytes room(10);
  const OpId op = receive(address_, 1, room);
  second.close();
  EXPECT_EQ(finish(op), Errc::kConnectionLost);
  EXPECT_TRUE(drive([&] { return peer.ended(); }));
  EXPECT_FALSE(network_->peer_info(address_).connected) << "one of its connections has ended";
}

TEST_F(Tcp, APeerThatComesBackKeepsItsAddress) {
  const Hello h = hello();
  RawPeer first = connect();
  handshake_and_introduce(first, h);
  const Address address = address_;
  EXPECT_EQ(network_->peer_info(address).connection, 1U);
  EXPECT_TRUE(network_->peer_info(address).same_host) << "the peer is in this process";
  EXPECT_EQ(network_->peer_info(address).uid, std::nullopt);
  Bytes room(10);
  const OpId old = receive(address, 1, room);
  RawPeer second = connect();  // the first one is still open, as after a cut cable
  handshake_and_introduce(second, h);
  EXPECT_EQ(address_, address);
  EXPECT_EQ(finish(old), Errc::kConnectionLost);
  EXPECT_TRUE(drive([&] { return first.ended(); }));
  EXPECT_EQ(network_->peer_info(address).connection, 2U);
  RawPeer other = connect();
  handshake_and_introduce(other, hello());
  EXPECT_NE(address_, address);
}

TEST_F(Tcp, PeersThatLeftAreForgottenWhenTheyAreTooMany) {
  TcpOptions options;
  options.gone_peers_kept = 2;
  make(options, NetworkOptions());
  std::vector<Address> addresses;
  for (int i = 0; i < 4; ++i) {
    RawPeer peer = connect();
    handshake_and_introduce(peer, hello());
    addresses.push_back(address_);
    peer.close();
    EXPECT_TRUE(drive([&] { return !network_->peer_info(addresses.back()).connected; }));
  }
  EXPECT_THAT(network_->peer_info(addresses[0]).url, testing::IsEmpty());
  EXPECT_THAT(network_->peer_info(addresses[1]).url, testing::IsEmpty());
  EXPECT_THAT(network_->peer_info(addresses[3]).url, testing::Not(testing::IsEmpty()));
}

TEST_F(Tcp, MessagesBeforeTheEndAreDelivered) {
  RawPeer peer = connect();
  handshake(peer, hello());
  for (std::uint64_t tag = 0; tag < 200; ++tag) EXPECT_TRUE(peer.write_frame(frame(FrameType::kUnexpected, tag, 0)));
  peer.close();
  EXPECT_TRUE(drive([&] { return arrived_.size() == 200; }));
}

TEST_F(Tcp, AHundredThousandReceives) {
  RawPeer peer = connect();
  handshake_and_introduce(peer, hello());
  constexpr std::uint64_t kReceives = 100'000;
  std::array<std::byte, 8> room{};
  std::vector<OpId> ops;
  for (std::uint64_t tag = 0; tag < kReceives; ++tag) ops.push_back(receive(address_, tag, room));
  for (std::uint64_t tag = kReceives; tag-- > kReceives - 1000;) {
    EXPECT_TRUE(peer.write_frame(frame(FrameType::kReady, tag, 0)));
    EXPECT_EQ(finish(ops[tag]), Errc::kOk);
  }
  for (const OpId op : ops) network_->cancel(op);
  EXPECT_TRUE(drive([&] { return done_.size() == kReceives; }));
}

TEST_F(Tcp, NamesAreResolvedOffTheLoop) {
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  if (resolve(name.data(), 1).empty()) GTEST_SKIP() << "this host's name does not resolve";
  make(TcpOptions(), NetworkOptions());
  const std::string any = network_->listen("tcp://*:0", context_).value();
  const Address address = network_->lookup(std::array{any}).value();
  EXPECT_THAT(network_->peer_info(address).url, testing::IsEmpty());
  const Bytes data(10);
  EXPECT_EQ(finish(send(address, 1, data)), Errc::kOk);
  EXPECT_EQ(network_->peer_info(address).url, any);
}

TEST_F(Tcp, APortInUseIsNamed) {
  const auto again = network_->listen(url_, context_);
  EXPECT_ERRC(again, Errc::kExists);
  EXPECT_NE(again.error().message().find(url_ + " is in use"), std::string::npos) << again.error().message();
}

TEST_F(Tcp, AFileThatCannotBeReadFailsItsSend) {
  RawPeer peer = connect();
  handshake_and_introduce(peer, hello());
  const std::array segments{Segment::of_file(::fileno(stdin) + 1000, 0, 100)};
  const OpId op = noted(network_->post_send(message(address_, 1, segments), context_, nullptr));
  EXPECT_EQ(finish(op), Errc::kBadDescriptor);
  EXPECT_TRUE(drive([&] { return peer.ended(); }));  // the header had left
}

TEST_F(Tcp, HeldMessagesLeaveTogether) {
  RawPeer peer = connect();
  handshake(peer, hello());
  const Address address = introduce(peer);
  settle();
  std::ignore = peer.read();
  network_->hold_sends();
  const Bytes data(10, std::byte{1});
  for (std::uint64_t tag = 1; tag <= 3; ++tag) send(address, tag, data, MessageClass::kControl, true);
  EXPECT_THAT(peer.read(), testing::IsEmpty());
  network_->flush_sends();
  EXPECT_EQ(peer.read().size(), 3 * (kHeaderSize + data.size()));
}

}  // namespace
}  // namespace spate::bmi::tcp
