// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/peer_table.h"

#include "base/clock.h"
#include "base/expect.h"
#include "base/random.h"

namespace spate::bmi::sim {
namespace {

class SimPeerTableTest : public testing::Test {
 protected:
  /// A peer of the process `instance`, which has connected to this one.
  Peer& inbound(std::uint64_t instance) {
    const PeerId id = peers_.next_id();
    auto peer = std::make_unique<Peer>(host_, id, Address(id.value), std::nullopt);
    peer->set_origin(hello_of(instance));
    Peer& added = peers_.add(std::move(peer));
    connect(added);
    return added;
  }
  Peer& outbound() {
    const PeerId id = peers_.next_id();
    Peer& added = peers_.add(std::make_unique<Peer>(host_, id, Address(id.value), NetworkInterface{7, 0}));
    connect(added);
    return added;
  }
  void connect(Peer& peer) {
    const ConnectionEnd before = peer.end();
    peer.connected({++connections_, 1}, {});
    peers_.moved(peer, before);
  }
  void lose(Peer& peer) {
    const ConnectionEnd before = peer.end();
    peer.lose(Errc::kConnectionLost);
    peers_.moved(peer, before);
  }
  static Hello hello_of(std::uint64_t instance) {
    Hello hello;
    hello.instance = instance;
    hello.peer = 1;
    return hello;
  }

  ManualClock clock_;
  SeededRandom random_{1};
  Fabric fabric_{clock_, random_, {}};
  NetworkOptions options_;
  std::vector<Outcome> outbox_;
  Host host_{fabric_, {}, 1, &options_, nullptr, outbox_};
  PeerTable peers_;
  std::uint64_t connections_ = 0;
};

TEST_F(SimPeerTableTest, APeerIsFoundByItsEndOnlyWhileItIsConnected) {
  Peer& peer = inbound(5);
  const ConnectionEnd first = peer.end();
  EXPECT_EQ(peers_.at(first), &peer);
  lose(peer);
  EXPECT_EQ(peers_.at(first), nullptr);
  EXPECT_EQ(peers_.find(peer.id()), &peer) << "it may come back";
  connect(peer);
  EXPECT_EQ(peers_.at(first), nullptr);
  EXPECT_EQ(peers_.at(peer.end()), &peer);
}

TEST_F(SimPeerTableTest, OnlyAnAdmittedPeerIsFoundByItsProcess) {
  Peer& peer = inbound(5);
  EXPECT_EQ(peers_.admitted(hello_of(5)), nullptr);
  EXPECT_EQ(peers_.admit(peer), nullptr);
  EXPECT_EQ(peers_.admitted(hello_of(5)), &peer);
  EXPECT_EQ(peers_.admitted(hello_of(6)), nullptr);
  Peer& next = inbound(5);
  EXPECT_EQ(peers_.admit(next), &peer);
  EXPECT_EQ(peers_.admitted(hello_of(5)), &next);
}

TEST_F(SimPeerTableTest, TheInboundPeerWhoseConnectionEndedFirstIsForgottenFirst) {
  Peer& one = inbound(5);
  Peer& two = inbound(6);
  peers_.admit(one);
  peers_.admit(two);
  lose(two);
  lose(one);
  ASSERT_EQ(peers_.gone(), 2U);
  const PeerId id = two.id();
  EXPECT_EQ(peers_.forget_the_oldest().get(), &two);
  EXPECT_EQ(peers_.find(id), nullptr);
  EXPECT_EQ(peers_.admitted(hello_of(6)), nullptr);
  EXPECT_EQ(peers_.admitted(hello_of(5)), &one);
  EXPECT_EQ(peers_.gone(), 1U);
}

TEST_F(SimPeerTableTest, APeerThatCameBackIsNotGone) {
  Peer& peer = inbound(5);
  lose(peer);
  connect(peer);
  EXPECT_EQ(peers_.gone(), 0U);
}

TEST_F(SimPeerTableTest, AnOutboundPeerIsNeverGone) {
  lose(outbound());
  EXPECT_EQ(peers_.gone(), 0U);
}

TEST_F(SimPeerTableTest, AForgottenPeerLeavesItsPlaceToTheOneThatReplacedIt) {
  Peer& before = inbound(5);
  peers_.admit(before);
  Peer& peer = inbound(5);
  peers_.admit(peer);
  lose(before);
  EXPECT_EQ(peers_.forget_the_oldest().get(), &before);
  EXPECT_EQ(peers_.admitted(hello_of(5)), &peer);
}

}  // namespace
}  // namespace spate::bmi::sim
