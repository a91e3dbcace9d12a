// SPDX-License-Identifier: Apache-2.0
// Unauthenticated peers at the meta server. A peer without a proved key must hold neither connections nor memory for
// long.

#include <algorithm>
#include <deque>

#include "base/expect.h"
#include "bmi/sim/raw_peer.h"
#include "tests/cluster/calls.h"
#include "wire/header.h"
#include "wire/session_messages.h"

namespace spate::cluster {
namespace {

using bmi::sim::NetworkInterface;
using bmi::sim::RawPeer;

constexpr std::size_t kCrowd = 400;
constexpr std::uint32_t kFirstNode = 5000;
constexpr NetworkInterface kMeta{kMetaServer.value, 0};

Bytes ping(FsId fs, std::size_t payload) {
  wire::RequestHeader header;
  header.op = wire::Op::kPing;
  header.fs = fs;
  header.reply_room = 16 * 1024;
  Bytes bytes;
  wire::encode_body(header, bytes);
  wire::PingRequest request;
  request.payload.resize(payload);
  wire::encode_body(request, bytes);
  return bytes;
}

/// The results of a run with unauthenticated peers.
struct Visit {
  std::size_t connected = 0;    // unauthenticated peers, one second after they have connected
  Errc honest = Errc::kOk;      // result of a client that connects then
  bool greedy_dropped = false;  // whether an unauthenticated peer that sends too much was dropped
  std::size_t left = 0;         // unauthenticated peers that are still connected at the end
};

class UnauthenticatedPeers {
 public:
  explicit UnauthenticatedPeers(Plant plant) : world_(options(plant)) {}

  Visit run() {
    Visit visit;
    for (std::size_t i = 0; i < kCrowd; ++i) come();
    world_.run_for(std::chrono::seconds(1));
    visit.connected = connected();
    ClientProcess& honest = world_.start_client();
    visit.honest = call(world_, honest, honest.client().mkdir(client::path_from_root("d"), {})).code();
    RawPeer& greedy = come();
    world_.run_for(std::chrono::milliseconds(100));
    greedy.send_unexpected(bmi::Tag(1), ping(world_.settings().map.fs, 2 * unauthenticated_limits().buffered_bytes));
    world_.run_for(std::chrono::seconds(1));
    visit.greedy_dropped = greedy.losses() > 0;
    world_.run_for(std::chrono::seconds(10));
    visit.left = connected();
    return visit;
  }

 private:
  static WorldOptions options(Plant plant) {
    WorldOptions options;
    options.plant = plant;
    return options;
  }
  RawPeer& come() {
    const NetworkInterface place{kFirstNode + static_cast<std::uint32_t>(crowd_.size()), 0};
    RawPeer& peer = crowd_.emplace_back(world_.fabric(), place);
    peer.connect(kMeta);
    return peer;
  }
  std::size_t connected() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(crowd_, [](const RawPeer& peer) { return peer.connected(); }));
  }

  World world_;
  std::deque<RawPeer> crowd_;
};

TEST(UnauthenticatedPeersTest, TakeBoundedMemoryAndBlockNobody) {
  const Visit visit = UnauthenticatedPeers(Plant::kNone).run();
  EXPECT_LE(visit.connected, unauthenticated_limits().most);
  EXPECT_EQ(visit.honest, Errc::kOk);
  EXPECT_TRUE(visit.greedy_dropped);
  EXPECT_EQ(visit.left, 0U);
}

TEST(UnauthenticatedPeersTest, WithoutLimitsAreFound) {
  const Visit visit = UnauthenticatedPeers(Plant::kEndlessStrangers).run();
  EXPECT_GT(visit.connected, unauthenticated_limits().most);
  EXPECT_FALSE(visit.greedy_dropped);
  EXPECT_GT(visit.left, 0U);
}

}  // namespace
}  // namespace spate::cluster
