// SPDX-License-Identifier: Apache-2.0
// The limits of a peer before it is admitted.
#include <algorithm>

#include "bmi/shm/module_fixture.h"

namespace spate::bmi::shm {
namespace {

class ShmUnauthenticatedPeersTest : public ModuleTest {
 protected:
  void SetUp() override {
    options_.unauthenticated.deadline_ms = 5000;
    make({}, options_);
    client_ = &start({}, {});
    to_server_ = client_->lookup(url_);
  }
  void pass(std::uint32_t ms) {
    clock_.advance(std::chrono::milliseconds(ms));
    settle();
  }
  testing::AssertionResult connected() {
    const bool is = (*client_)->peer_info(to_server_).connected;
    return (is ? testing::AssertionSuccess() : testing::AssertionFailure()) << (is ? "connected" : "not connected");
  }

  NetworkOptions options_;
  Instance* client_ = nullptr;
  Address to_server_;
};

TEST_F(ShmUnauthenticatedPeersTest, AnUnauthenticatedPeerIsDroppedAtTheDeadline) {
  introduce(*client_, to_server_);
  pass(4999);
  EXPECT_TRUE(connected());
  pass(1);
  EXPECT_TRUE(drive([&] { return !connected(); }));
  EXPECT_EQ(server_->counters().unauthenticated_dropped, 1U);
}

/// The shorter of both times counts until the transport's own handshake has begun.
TEST_F(ShmUnauthenticatedPeersTest, AConnectionThatSaysNothingIsClosedAtTheDeadline) {
  for (const std::uint32_t deadline_ms : {1000U, 5000U}) {
    options_.unauthenticated.deadline_ms = deadline_ms;
    make({}, options_);
    const std::uint32_t timeout_ms = std::min(deadline_ms, (*server_)->options().connect_timeout_ms);
    RawPeer silent(url_);
    settle();
    pass(timeout_ms - 1);
    EXPECT_FALSE(silent.closed()) << deadline_ms;
    pass(1);
    EXPECT_TRUE(drive([&] { return silent.closed(); })) << deadline_ms;
  }
}

TEST_F(ShmUnauthenticatedPeersTest, TheTimeRunsFromTheConnectionOn) {
  RawPeer peer(url_);
  settle();
  pass(2900);  // within the time for connecting
  handshake(peer);
  introduce(peer);
  pass(2099);
  EXPECT_FALSE(peer.closed());
  pass(1);
  EXPECT_TRUE(drive([&] { return peer.closed(); }));
}

TEST_F(ShmUnauthenticatedPeersTest, AnAdmittedPeerStays) {
  (*server_)->admit(introduce(*client_, to_server_));
  pass(60'000);
  EXPECT_TRUE(connected());
  const Bytes large(100'000);
  EXPECT_EQ(finish(*client_, client_->request(to_server_, 1, large)), Errc::kOk);
  EXPECT_TRUE(drive([&] { return server_->arrived.size() == 1; }));
}

TEST_F(ShmUnauthenticatedPeersTest, AnUnauthenticatedPeerCannotMakeTheServerBufferMoreThanItsLimit) {
  introduce(*client_, to_server_);
  const Bytes eager(10'000);
  client_->send(to_server_, 1, eager);
  settle();
  EXPECT_TRUE(connected());
  client_->send(to_server_, 2, eager);
  EXPECT_TRUE(drive([&] { return !connected(); }));
}

TEST_F(ShmUnauthenticatedPeersTest, AnnouncementsAreBounded) {
  introduce(*client_, to_server_);
  const Bytes large(1 << 20);
  for (std::uint32_t i = 0; i < options_.unauthenticated.announced; ++i) client_->send(to_server_, i, large);
  settle();
  EXPECT_TRUE(connected());
  client_->send(to_server_, 1000, large);
  EXPECT_TRUE(drive([&] { return !connected(); }));
}

TEST_F(ShmUnauthenticatedPeersTest, AnUnauthenticatedPeersMemoryIsNotMapped) {
  introduce(*client_, to_server_);
  const MutableByteView memory = (*client_)->mem_alloc(1 << 20);
  const OpId op = client_->send(to_server_, 1, memory);
  EXPECT_EQ(finish(*client_, op), Errc::kConnectionLost);
  EXPECT_GE(server_->counters().protocol_errors, 1U);
  (*client_)->mem_free(memory);
}

TEST_F(ShmUnauthenticatedPeersTest, AnUnauthenticatedPeerSharesLittleMemory) {
  constexpr std::uint64_t kMost = 64 * 1024;
  for (const std::uint16_t version : {std::uint16_t{1}, std::uint16_t{2}}) {
    RawPeer peer(url_);
    Hello hello = RawPeer::hello();
    hello.versions.max = version;
    handshake(peer, hello);
    EXPECT_LE(peer.memory().size(), kMost);
    EXPECT_EQ(peer.full_lanes().size(), 0U);
  }
}

TEST_F(ShmUnauthenticatedPeersTest, AnAdmittedPeerHasTheFullLanes) {
  RawPeer peer(url_);
  const Welcome welcome = handshake(peer);
  (*server_)->admit(introduce(peer));
  ASSERT_TRUE(drive([&] {
    peer.follow();
    return !peer.link().narrow_in(MessageClass::kBulk);
  }));
  EXPECT_EQ(peer.full_lanes().size(), full_lanes_size(welcome.geometry));
}

TEST_F(ShmUnauthenticatedPeersTest, AnUnauthenticatedPeerThatTakesTheFullLanesIsDropped) {
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    RawPeer peer(url_);
    handshake(peer);
    peer.widen(c);
    EXPECT_TRUE(drive([&] { return peer.closed(); }));
  }
  EXPECT_EQ(server_->counters().protocol_errors, 2U);
}

TEST_F(ShmUnauthenticatedPeersTest, APeerThatWidensTwiceIsDropped) {
  RawPeer peer(url_);
  handshake(peer);
  (*server_)->admit(introduce(peer));
  ASSERT_TRUE(drive([&] {
    peer.follow();
    return !peer.link().narrow_in(MessageClass::kControl);
  }));
  peer.widen(MessageClass::kControl);
  EXPECT_TRUE(drive([&] { return peer.closed(); }));
}

TEST_F(ShmUnauthenticatedPeersTest, MessagesThatHaveNotBegunWaitForTheFullLane) {
  RawPeer peer(url_);
  handshake(peer);
  const Address to_peer = introduce(peer);
  const Bytes data(3000);  // the narrow lane holds one and the beginning of the next
  for (std::uint64_t tag = 0; tag < 4; ++tag) server_->send(to_peer, tag, data, MessageClass::kBulk);
  settle();
  (*server_)->admit(to_peer);
  std::uint64_t begun = 0;
  std::optional<Frame> seen;
  const testing::AssertionResult widened = drive([&] {
    seen = peer.next(MessageClass::kBulk);
    if (!seen) {
      peer.ring();
      return false;
    }
    if (seen->header.type == FrameType::kEager) ++begun;
    return seen->header.type == kWiden;
  });
  EXPECT_TRUE(widened);
  EXPECT_EQ(begun, 2U) << "messages that went through the narrow lane";
}

TEST_F(ShmUnauthenticatedPeersTest, MessagesKeepTheirOrderWhileTheLanesChange) {
  constexpr std::uint64_t kMessages = 200;
  const Address to_client = introduce(*client_, to_server_);
  const Bytes some(3000);
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    if (i == kMessages / 2) (*server_)->admit(to_client);
    (void)server_->request(to_client, i, some);
    // More messages would exceed the limits of an unauthenticated peer.
    if (i > kMessages / 2) (void)client_->request(to_server_, i, some);
    if (i % 7 == 0) step();
  }
  ASSERT_TRUE(drive([&] { return client_->arrived.size() == kMessages; }));
  for (std::uint64_t i = 0; i < kMessages; ++i) EXPECT_EQ(client_->arrived[i].tag, Tag(i));
  ASSERT_TRUE(drive([&] { return server_->arrived.size() == kMessages / 2 - 1; }));
  for (std::uint64_t i = 1; i < kMessages / 2; ++i) {
    EXPECT_EQ(server_->arrived[i - 1].tag, Tag(kMessages / 2 + i));
  }
}

TEST_F(ShmUnauthenticatedPeersTest, APeerOfVersion1KeepsNarrowLanes) {
  RawPeer peer(url_);
  Hello hello = RawPeer::hello();
  hello.versions.max = 1;
  const Welcome welcome = handshake(peer, hello);
  EXPECT_EQ(welcome.version, 1);
  EXPECT_EQ(welcome.geometry, kNarrow);
  const Address address = introduce(peer);
  (*server_)->admit(address);
  Bytes room(100'000);
  const OpId out = server_->send(address, 1, room, MessageClass::kControl, true);
  ASSERT_TRUE(drive([&] {
    while (peer.next(MessageClass::kControl)) peer.ring();
    return server_->done(out);
  }));
  EXPECT_EQ(server_->completion(out).status, Errc::kOk);
}

TEST_F(ShmUnauthenticatedPeersTest, UnauthenticatedPeersOfOneUserAreLimitedInNumber) {
  std::vector<std::unique_ptr<RawPeer>> unauthenticated_peers;
  for (int i = 0; i < 60; ++i) {
    unauthenticated_peers.push_back(std::make_unique<RawPeer>(url_));
    handshake(*unauthenticated_peers.back());
  }
  settle();
  const auto left = std::ranges::count_if(unauthenticated_peers, [](const auto& peer) { return !peer->closed(); });
  EXPECT_EQ(left, options_.unauthenticated.most_of_a_source);
}

}  // namespace
}  // namespace spate::bmi::shm
