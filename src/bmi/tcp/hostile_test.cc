// SPDX-License-Identifier: Apache-2.0
// Unauthenticated peers and broken or hostile peers. They can lose their connection, and nobody else is affected.
#include "bmi/tcp/module_fixture.h"

namespace spate::bmi::tcp {
namespace {

class Hostile : public ModuleTest {
 protected:
  /// Checks that a correct peer is still served.
  void expect_works() {
    RawPeer peer = connect();
    EXPECT_EQ(handshake(peer, hello()).status, Errc::kOk);
    EXPECT_NE(introduce(peer), Address()) << "an honest peer is not served";
  }
};

TEST_F(Hostile, GarbageOnThePort) {
  RawPeer unauthenticated = connect();
  EXPECT_TRUE(unauthenticated.write(
      as_bytes("GET / HTTP/1.1\r\nHost: spate\r\nUser-Agent: something that is no peer\r\n\r\n")));
  EXPECT_TRUE(drive([&] { return unauthenticated.ended(); }));
  EXPECT_EQ(module_->counters().protocol_errors, 1U);
  expect_works();
}

TEST_F(Hostile, ASilentUnauthenticatedPeerIsDroppedAtTheDeadline) {
  RawPeer silent = connect();
  RawPeer slow = connect();
  EXPECT_TRUE(slow.write(as_bytes("SPATEtcp")));
  settle();
  EXPECT_FALSE(silent.ended());
  clock_.advance(std::chrono::milliseconds(network_->options().connect_timeout_ms));
  EXPECT_TRUE(drive([&] { return silent.ended() && slow.ended(); }));
  EXPECT_EQ(module_->counters().refused, 2U);
  expect_works();
}

TEST_F(Hostile, UnauthenticatedPeersAreBoundedInNumber) {
  NetworkOptions options;
  options.unauthenticated.most = 4;
  make(TcpOptions(), options);
  std::deque<RawPeer> unauthenticated_peers;
  for (int i = 0; i < 10; ++i) {
    unauthenticated_peers.push_back(connect());
    settle();
    EXPECT_FALSE(unauthenticated_peers.back().ended()) << "the newest is kept";
  }
  EXPECT_EQ(std::ranges::count_if(unauthenticated_peers, [](RawPeer& peer) { return peer.ended(); }), 6);
  EXPECT_EQ(module_->counters().unauthenticated_dropped, 6U);
  expect_works();
}

TEST_F(Hostile, OtherVersionsGetTheSupportedVersionsAsAnswer) {
  RawPeer newer = connect();
  Hello h = hello();
  h.versions.min = kVersionMax + 1;
  h.versions.max = kVersionMax + 3;
  const Welcome welcome = handshake(newer, h);
  EXPECT_EQ(welcome.status, Errc::kVersionMismatch);
  EXPECT_EQ(welcome.version, kVersionMax);
  EXPECT_TRUE(drive([&] { return newer.ended(); }));
  EXPECT_EQ(module_->counters().refused, 1U);
  EXPECT_EQ(module_->counters().protocol_errors, 0U);  // the peer kept to the protocol
}

TEST_F(Hostile, FramesThatTheProtocolDoesNotAllow) {
  FrameHeader wrong_class = frame(FrameType::kEager, 1, 10);
  wrong_class.message_class = MessageClass::kBulk;
  FrameHeader bulk_unexpected = frame(FrameType::kUnexpected, 1, 10);
  bulk_unexpected.message_class = MessageClass::kBulk;
  FrameHeader unknown_clear = frame(FrameType::kClear, 1);
  unknown_clear.id = 12345;
  const std::vector<FrameHeader> frames{
      frame(FrameType::kUnexpected, 1, network_->options().max_unexpected_bytes + 1),
      frame(FrameType::kEager, 1, std::uint64_t{1} << 61U),
      frame(FrameType::kEager, 1, network_->options().buffered_per_peer_bytes),
      frame(kOpenBulk),
      wrong_class,
      bulk_unexpected,
      unknown_clear,
  };
  std::uint64_t errors = 0;
  for (const FrameHeader& header : frames) {
    RawPeer peer = connect();
    handshake(peer, hello());
    const Address address = introduce(peer);
    Bytes room(10);
    const OpId posted = receive(address, 77, room);
    EXPECT_TRUE(peer.write_frame(header));
    EXPECT_TRUE(drive([&] { return peer.ended(); })) << static_cast<int>(header.type);
    EXPECT_EQ(finish(posted), Errc::kConnectionLost);
    EXPECT_EQ(module_->counters().protocol_errors, ++errors);
  }
  expect_works();
}

TEST_F(Hostile, AFloodOfUnexpectedMessagesEndsAtTheWindow) {
  take_unexpected_ = false;
  RawPeer peer = connect();
  const Limits granted = handshake(peer, hello()).limits;
  const Bytes payload(1000);
  std::uint64_t sent = 0;
  EXPECT_TRUE(drive([&] {
    if (peer.write_frame(frame(FrameType::kUnexpected, sent, payload.size()), payload)) ++sent;
    return peer.ended();
  }));
  EXPECT_EQ(module_->counters().protocol_errors, 1U);
  take_unexpected_ = true;
  // However much the peer sent, no more was kept than it was granted.
  const std::uint64_t kept = granted.window / cost_of(payload.size());
  EXPECT_TRUE(drive([&] { return arrived_.size() >= kept; }));
  settle();
  EXPECT_EQ(arrived_.size(), kept);
}

TEST_F(Hostile, AReconnectDoesNotRefillTheWindow) {
  take_unexpected_ = false;
  const Hello h = hello();
  RawPeer first = connect();
  const std::uint64_t window = handshake(first, h).limits.window;
  const Bytes payload(100'000);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(first.write_frame(frame(FrameType::kUnexpected, 1, payload.size()), payload));
  settle();
  first.close();
  settle();
  RawPeer second = connect();
  EXPECT_EQ(handshake(second, h).limits.window, window - 5 * cost_of(payload.size()));
  take_unexpected_ = true;
  settle();  // the messages are taken, so the rest of the credit comes back
  EXPECT_TRUE(second.write_frame(frame(FrameType::kUnexpected, 2, 0)));
  settle();
  const Bytes back = second.read();
  std::uint64_t credit = 0;
  for (std::size_t at = 0; at + kHeaderSize <= back.size(); at += kHeaderSize)
    credit += decode_frame(back.data() + at)->credit;
  EXPECT_GT(credit, 0U);
}

TEST_F(Hostile, TooManyAnnouncements) {
  TcpOptions options;
  options.max_announced = 50;
  make(options, NetworkOptions());
  RawPeer peer = connect();
  EXPECT_EQ(handshake(peer, hello()).limits.max_announced, 50U);
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_TRUE(peer.write_frame(frame(FrameType::kAnnounce, i, 1 << 30)));
  settle();
  EXPECT_FALSE(peer.ended());
  EXPECT_TRUE(peer.write_frame(frame(FrameType::kAnnounce, 50, 1 << 30)));
  EXPECT_TRUE(drive([&] { return peer.ended(); }));
  EXPECT_EQ(module_->counters().protocol_errors, 1U);
}

// The peer clears withdrawn messages again and again, and reads none of the answers.
TEST_F(Hostile, AnswersToAPeerThatDoesNotReadAreBounded) {
  RawPeer peer = connect();
  handshake(peer, hello());
  const Address address = introduce(peer);
  Bytes room(1000);
  std::vector<OpId> posted;
  bool lost = false;
  for (int round = 0; round < 3000 && !lost; ++round) {
    for (int i = 0; i < 100 && !lost; ++i) {
      const std::array segments{Segment::of(MutableByteView(room))};
      const auto post = network_->post_recv(message(address, 5, segments), context_, nullptr);
      lost = !post || !peer.write_frame(frame(FrameType::kAnnounce, 5, 1000));
      if (post) posted.push_back(post->op);
    }
    step();
    for (const OpId op : posted) network_->cancel(op);
    posted.clear();
    step();
  }
  EXPECT_TRUE(lost) << "the peer may announce messages without end";
}

TEST_F(Hostile, ABulkConnectionNeedsTheTokenOfItsControlConnection) {
  const Hello control = hello();
  RawPeer peer = connect();
  const Welcome welcome = handshake(peer, control);
  Hello bulk = control;
  bulk.channel = 1;
  bulk.token = welcome.token + 1;
  RawPeer thief = connect();
  EXPECT_EQ(handshake(thief, bulk).status, Errc::kConnectionLost);
  EXPECT_TRUE(drive([&] { return thief.ended(); }));
  bulk.token = welcome.token;
  RawPeer right = connect();
  EXPECT_EQ(handshake(right, bulk).status, Errc::kOk);
  RawPeer twice = connect();
  EXPECT_EQ(handshake(twice, bulk).status, Errc::kConnectionLost);
  EXPECT_FALSE(right.ended());
  EXPECT_EQ(module_->counters().refused, 2U);
}

// The peer's control connection ended while the bulk connection was being made. Nobody has broken the protocol.
TEST_F(Hostile, ABulkConnectionThatComesTooLateIsNoProtocolError) {
  const Hello control = hello();
  RawPeer peer = connect();
  Hello bulk = control;
  bulk.channel = 1;
  bulk.token = handshake(peer, control).token;
  peer.close();
  settle();
  RawPeer late = connect();
  EXPECT_EQ(handshake(late, bulk).status, Errc::kConnectionLost);
  EXPECT_TRUE(drive([&] { return late.ended(); }));
  EXPECT_EQ(module_->counters().protocol_errors, 0U);
  EXPECT_EQ(module_->counters().refused, 1U);
  expect_works();
}

TEST_F(Hostile, AServerOfAnotherProtocolIsUnreachable) {
  const UniqueFd listener = listen_on(parse_url("tcp://127.0.0.1:0").value()).value();
  const std::string url = advertised_url(parse_url("tcp://127.0.0.1:0").value(), listener.get());
  const Address address = network_->lookup(std::array{url}).value();
  const Bytes data(10);
  const OpId op = send(address, 1, data);
  std::optional<RawPeer> unauthenticated;
  EXPECT_TRUE(drive([&] {
    const int fd = ::accept(listener.get(), nullptr, nullptr);
    if (fd >= 0) unauthenticated.emplace(UniqueFd(fd));
    return unauthenticated.has_value();
  }));
  EXPECT_TRUE(
      unauthenticated->write(as_bytes("220 mail.example ESMTP, at your service, and far longer than any welcome")));
  EXPECT_EQ(finish(op), Errc::kUnreachable);
}

TEST_F(Hostile, AServerThatNeverAnswersIsUnreachableInTime) {
  // Nobody accepts its connections.
  const UniqueFd listener = listen_on(parse_url("tcp://127.0.0.1:0").value()).value();
  const std::string url = advertised_url(parse_url("tcp://127.0.0.1:0").value(), listener.get());
  const Bytes data(10);
  const OpId op = send(network_->lookup(std::array{url}).value(), 1, data);
  settle();
  EXPECT_FALSE(done(op));
  clock_.advance(std::chrono::milliseconds(network_->options().connect_timeout_ms));
  EXPECT_EQ(finish(op), Errc::kUnreachable);
}

TEST_F(Hostile, RandomFramesNeverHurt) {
  SeededRandom random(11);
  for (int i = 0; i < 200; ++i) {
    RawPeer peer = connect();
    handshake(peer, hello());
    const Address address = introduce(peer);
    Bytes room(5000);
    std::vector<OpId> ops;
    for (std::uint64_t tag = 0; tag < 4; ++tag) ops.push_back(receive(address, tag, room));
    for (int j = 0; j < 20; ++j) {
      FrameHeader header = frame(type_of_number(static_cast<std::uint8_t>(1 + random.below(10))).value(),
                                 random.below(4), random.below(6000));
      header.flags = static_cast<std::uint8_t>(random.below(2));
      header.id = random.chance(1, 2) ? ops[random.below(ops.size())].value : random.below(1000);
      Bytes payload(header.payload());
      if (!peer.write_frame(header, payload)) break;
      if (random.chance(1, 3)) network_->cancel(ops[random.below(ops.size())]);
      step();
    }
    peer.close();
    for (const OpId op : ops) EXPECT_NE(finish(op), Errc::kTimeout);
  }
  expect_works();
}

}  // namespace
}  // namespace spate::bmi::tcp
