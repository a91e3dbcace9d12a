// SPDX-License-Identifier: Apache-2.0
// The limits of a peer before it is admitted, and when they end.
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "bmi/tcp/module_fixture.h"

namespace {
/// How many calls of epoll_ctl(ADD) succeed from now on; negative: all.
int adds_left = -1;
}  // namespace

/// Replaces the C library's function, so that a test can make the kernel refuse (ENOSPC: fs.epoll.max_user_watches).
extern "C" int epoll_ctl(int set, int operation, int fd, epoll_event* event) noexcept {
  if (operation == EPOLL_CTL_ADD && adds_left == 0) {
    errno = ENOSPC;
    return -1;
  }
  if (operation == EPOLL_CTL_ADD && adds_left > 0) --adds_left;
  return static_cast<int>(::syscall(SYS_epoll_ctl, set, operation, fd, event));
}

namespace spate::bmi::tcp {
namespace {

class UnauthenticatedPeersTest : public ModuleTest {
 protected:
  void SetUp() override {
    options_.unauthenticated.deadline_ms = 5000;
    make(TcpOptions(), options_);
  }
  void TearDown() override { adds_left = -1; }
  Address admitted(RawPeer& peer, const Hello& h) {
    EXPECT_EQ(handshake(peer, h).status, Errc::kOk);
    const Address address = introduce(peer);
    network_->admit(address);
    return address;
  }
  void pass(std::uint32_t ms) {
    clock_.advance(std::chrono::milliseconds(ms));
    settle();
  }

  NetworkOptions options_;
};

TEST_F(UnauthenticatedPeersTest, AnUnauthenticatedPeerIsDroppedAtTheDeadline) {
  RawPeer peer = connect();
  handshake(peer, hello());
  introduce(peer);
  pass(4999);
  EXPECT_FALSE(peer.ended());
  pass(1);
  EXPECT_TRUE(drive([&] { return peer.ended(); }));
  EXPECT_EQ(module_->counters().unauthenticated_dropped, 1U);
}

TEST_F(UnauthenticatedPeersTest, TheTimeRunsFromTheConnectionOn) {
  RawPeer peer = connect();
  settle();
  pass(2900);  // within the connect timeout
  handshake(peer, hello());
  introduce(peer);
  pass(2100);
  EXPECT_TRUE(drive([&] { return peer.ended(); }));
}

/// The shorter of both times counts until the transport's own handshake has begun.
TEST_F(UnauthenticatedPeersTest, AConnectionThatSaysNothingIsClosedAtTheDeadline) {
  options_.unauthenticated.deadline_ms = 1000;
  make(TcpOptions(), options_);
  RawPeer silent = connect();
  RawPeer slow = connect();
  settle();
  ASSERT_TRUE(slow.write(Bytes(10)));
  pass(999);
  EXPECT_FALSE(silent.ended());
  EXPECT_FALSE(slow.ended());
  pass(1);
  EXPECT_TRUE(drive([&] { return silent.ended() && slow.ended(); }));
}

TEST_F(UnauthenticatedPeersTest, AConnectionThatSaysNothingIsClosedAfterTheTimeForConnecting) {
  RawPeer silent = connect();
  settle();
  pass(network_->options().connect_timeout_ms - 1);
  EXPECT_FALSE(silent.ended());
  pass(1);
  EXPECT_TRUE(drive([&] { return silent.ended(); }));
}

TEST_F(UnauthenticatedPeersTest, AnAdmittedPeerStaysAndGetsTheWholeWindow) {
  RawPeer peer = connect();
  admitted(peer, hello());
  pass(60'000);
  take_unexpected_ = false;
  const Bytes payload(100'000);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(peer.write_frame(frame(FrameType::kUnexpected, 1, payload.size()), payload));
  settle();
  EXPECT_FALSE(peer.ended());
  EXPECT_EQ(module_->counters().unauthenticated_dropped, 0U);
}

TEST_F(UnauthenticatedPeersTest, MessagesOfAnUnauthenticatedPeerAreBufferedUpToItsLimit) {
  for (const FrameType type : {FrameType::kEager, FrameType::kUnexpected}) {
    take_unexpected_ = false;
    RawPeer peer = connect();
    handshake(peer, hello());
    const Bytes payload(8 * 1024 - protocol::kMessageOverhead);
    EXPECT_TRUE(peer.write_frame(frame(type, 1, payload.size()), payload));
    EXPECT_TRUE(peer.write_frame(frame(type, 1, payload.size()), payload));
    settle();
    EXPECT_FALSE(peer.ended());
    EXPECT_TRUE(peer.write_frame(frame(type, 1, 0)));
    EXPECT_TRUE(drive([&] { return peer.ended(); })) << static_cast<int>(type);
  }
}

TEST_F(UnauthenticatedPeersTest, AnnouncementsAreBounded) {
  RawPeer peer = connect();
  handshake(peer, hello());
  const std::uint32_t most = options_.unauthenticated.announced;
  for (std::uint64_t i = 0; i < most; ++i) EXPECT_TRUE(peer.write_frame(frame(FrameType::kAnnounce, i, 1 << 30)));
  settle();
  EXPECT_FALSE(peer.ended());
  EXPECT_TRUE(peer.write_frame(frame(FrameType::kAnnounce, most, 1 << 30)));
  EXPECT_TRUE(drive([&] { return peer.ended(); }));
}

TEST_F(UnauthenticatedPeersTest, AnUnauthenticatedPeerHasNoBulkConnections) {
  Hello h = hello();
  RawPeer peer = connect();
  const Welcome welcome = handshake(peer, h);
  h.channel = 1;
  h.token = welcome.token;
  RawPeer bulk = connect();
  EXPECT_EQ(handshake(bulk, h).status, Errc::kConnectionLost);
  network_->admit(introduce(peer));
  RawPeer later = connect();
  EXPECT_EQ(handshake(later, h).status, Errc::kOk);
}

TEST_F(UnauthenticatedPeersTest, UnauthenticatedPeersOfOneSourceAreLimitedInNumber) {
  std::deque<RawPeer> unauthenticated_peers;
  for (int i = 0; i < 60; ++i) {
    unauthenticated_peers.push_back(connect());
    handshake(unauthenticated_peers.back(), hello());
    EXPECT_TRUE(unauthenticated_peers.back().write_frame(frame(FrameType::kEager, 1, 10'000), Bytes(10'000)));
    settle();
  }
  const auto left = std::ranges::count_if(unauthenticated_peers, [](RawPeer& peer) { return !peer.ended(); });
  EXPECT_EQ(left, options_.unauthenticated.most_of_a_source);
  EXPECT_EQ(module_->counters().unauthenticated_dropped, 60U - options_.unauthenticated.most_of_a_source);
}

TEST_F(UnauthenticatedPeersTest, AnUnauthenticatedPeerWithAKnownLinkIdDropsNoConnection) {
  const Hello h = hello();
  RawPeer honest = connect();
  const Address first = admitted(honest, h);
  RawPeer thief = connect();  // a process that has overheard the id
  handshake(thief, h);
  settle();
  EXPECT_FALSE(honest.ended());
  const Address second = introduce(thief);
  EXPECT_NE(first, second);
  network_->admit(second);  // it was the same process after all
  EXPECT_TRUE(drive([&] { return honest.ended(); }));
  EXPECT_FALSE(thief.ended());
}

TEST_F(UnauthenticatedPeersTest, MessagesOfAnUnauthenticatedPeerAreForgottenWithIt) {
  TcpOptions tcp;
  tcp.gone_peers_kept = 2;
  make(tcp, options_);
  take_unexpected_ = false;
  for (int i = 0; i < 20; ++i) {
    RawPeer peer = connect();
    handshake(peer, hello());
    EXPECT_TRUE(peer.write_frame(frame(FrameType::kUnexpected, 1, 0)));
    settle();
    peer.close();
    settle();
  }
  take_unexpected_ = true;
  settle();
  EXPECT_EQ(arrived_.size(), 2U) << "messages of peers that are remembered";
}

TEST_F(UnauthenticatedPeersTest, AWatchThatTheKernelRefusesCostsTheConnection) {
  adds_left = 0;
  RawPeer unlucky = connect();
  EXPECT_TRUE(drive([&] { return unlucky.ended(); }));
  EXPECT_EQ(module_->counters().refused, 1U);
  const Address target = network_->lookup(std::vector{url_}).value();
  const Bytes data(10);
  EXPECT_EQ(finish(send(target, 1, data)), Errc::kUnreachable);
  EXPECT_ERRC(network_->listen("tcp://127.0.0.1:0", context_), Errc::kNoSpace);
  adds_left = -1;
  RawPeer peer = connect();
  admitted(peer, hello());
}

}  // namespace
}  // namespace spate::bmi::tcp
