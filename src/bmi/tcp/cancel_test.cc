// SPDX-License-Identifier: Apache-2.0
// Cancels, and what the peer learns of them.
#include "base/expect.h"
#include "bmi/tcp/raw_peer_test.h"

namespace spate::bmi::tcp {
namespace {

using TcpCancel = RawPeerTest;

TEST_F(TcpCancel, CancelOfAReceiveInEachState) {
  RawPeer peer = connect();
  handshake_and_introduce(peer, hello());
  Bytes room(100'000);
  const OpId posted = receive(address_, 1, room);
  network_->cancel(posted);
  EXPECT_EQ(finish(posted), Errc::kCancelled);

  EXPECT_TRUE(peer.write_frame(frame(FrameType::kAnnounce, 2, room.size())));
  settle();
  const OpId cleared = receive(address_, 2, room);
  EXPECT_EQ(next_frame(peer)->tag, cleared.value);
  network_->cancel(cleared);
  EXPECT_EQ(finish(cleared), Errc::kCancelled);
  const Bytes data(room.size(), std::byte{7});
  EXPECT_TRUE(peer.write_frame(data_for(cleared, data.size()), data));

  const OpId filling = receive(address_, 3, room);
  EXPECT_TRUE(peer.write_frame(frame(FrameType::kReady, 3, data.size()), ByteView(data).first(50'000)));
  settle();
  network_->cancel(filling);
  EXPECT_EQ(finish(filling), Errc::kCancelled);
  room.assign(room.size(), std::byte{1});
  EXPECT_TRUE(peer.write(ByteView(data).subspan(50'000)));
  EXPECT_NE(introduce(peer), Address()) << "the connection has ended";
  EXPECT_EQ(std::ranges::count(room, std::byte{1}), static_cast<std::ptrdiff_t>(room.size()));
}

TEST_F(TcpCancel, CancelOfAnAnnouncedSendIsSentToThePeer) {
  RawPeer peer = connect();
  handshake_and_introduce(peer, hello());
  const Bytes data(100'000);
  const OpId op = send(address_, 1, data);
  const FrameHeader announced = *next_frame(peer);
  network_->cancel(op);
  EXPECT_EQ(finish(op), Errc::kCancelled);
  const FrameHeader withdrawn = *next_frame(peer);
  EXPECT_EQ(withdrawn.type, FrameType::kWithdraw);
  EXPECT_EQ(withdrawn.id, announced.id);
  // The peer had cleared the message at the same time. It is told that no data comes.
  FrameHeader clear = frame(FrameType::kClear, 4711);
  clear.id = announced.id;
  EXPECT_TRUE(peer.write_frame(clear));
  const FrameHeader answer = *next_frame(peer);
  EXPECT_EQ(answer.type, FrameType::kNoData);
  EXPECT_EQ(answer.id, 4711U);
  // It is told only once.
  EXPECT_TRUE(peer.write_frame(clear));
  EXPECT_TRUE(drive([&] { return peer.ended(); }));
}

TEST_F(TcpCancel, AReceiveWhoseMessageWasWithdrawnTakesTheNextOne) {
  RawPeer peer = connect();
  handshake_and_introduce(peer, hello());
  FrameHeader announce = frame(FrameType::kAnnounce, 1, 1000);
  announce.id = 5;
  EXPECT_TRUE(peer.write_frame(announce));
  settle();
  Bytes room(1000);
  const OpId first = receive(address_, 1, room);
  const OpId second = receive(address_, 1, room);
  EXPECT_EQ(next_frame(peer)->type, FrameType::kClear);
  FrameHeader no_data = frame(FrameType::kNoData);
  no_data.id = first.value;
  EXPECT_TRUE(peer.write_frame(no_data));
  EXPECT_TRUE(peer.write_frame(frame(FrameType::kEager, 1, 0)));
  EXPECT_EQ(finish(first), Errc::kOk);
  EXPECT_FALSE(done(second));
  // An announcement that is withdrawn before anybody cleared it has no effect.
  announce.tag = 2;
  EXPECT_TRUE(peer.write_frame(announce));
  FrameHeader withdraw = frame(FrameType::kWithdraw, 2);
  withdraw.id = 5;
  EXPECT_TRUE(peer.write_frame(withdraw));
  settle();
  const OpId third = receive(address_, 2, room);
  EXPECT_TRUE(peer.write_frame(frame(FrameType::kEager, 2, 0)));
  EXPECT_EQ(finish(third), Errc::kOk);
}

TEST_F(TcpCancel, CancelOfSendsToAPeerThatNeverReads) {
  RawPeer peer = connect();
  handshake_and_introduce(peer, hello());
  const Bytes large(64 * 1024 * 1024);
  const Bytes small(10);
  const OpId moving = send(address_, 1, large, MessageClass::kControl, true);
  const OpId queued = send(address_, 2, small);
  settle();
  EXPECT_FALSE(done(moving));
  EXPECT_FALSE(done(queued));
  network_->cancel(queued);
  EXPECT_EQ(finish(queued), Errc::kCancelled);
  network_->cancel(moving);  // half of it has left, so the connection must end
  settle();
  EXPECT_FALSE(done(moving));
  clock_.advance(std::chrono::milliseconds(TcpOptions().cancel_grace_ms));
  EXPECT_NE(finish(moving), Errc::kOk);
  EXPECT_TRUE(drive([&] { return peer.ended(); }));
}

TEST_F(TcpCancel, ACancelledSendThatIsTakenInTimeCostsNothing) {
  RawPeer peer = connect();
  handshake_and_introduce(peer, hello());
  const Bytes large(64 * 1024 * 1024);
  const OpId moving = send(address_, 1, large, MessageClass::kControl, true);
  network_->cancel(moving);
  std::size_t got = 0;
  EXPECT_TRUE(drive([&] {
    got += peer.read().size();
    return got == large.size() + kHeaderSize;
  }));
  EXPECT_EQ(finish(moving), Errc::kOk);
  clock_.advance(std::chrono::seconds(10));
  settle();
  EXPECT_FALSE(peer.ended());
}

TEST_F(TcpCancel, CancelWhileConnecting) {
  const UniqueFd listener = listen_on(parse_url("tcp://127.0.0.1:0").value()).value();
  const std::string url = advertised_url(parse_url("tcp://127.0.0.1:0").value(), listener.get());
  const Address address = network_->lookup(std::array{url}).value();
  Bytes data(10);
  const OpId first = send(address, 1, data);
  const OpId second = receive(address, 1, data, MessageClass::kBulk);
  settle();
  network_->cancel(first);
  network_->cancel(second);
  EXPECT_EQ(finish(first), Errc::kCancelled);
  EXPECT_EQ(finish(second), Errc::kCancelled);
}

}  // namespace
}  // namespace spate::bmi::tcp
