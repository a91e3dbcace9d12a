// SPDX-License-Identifier: Apache-2.0
// Killed processes, crashed machines, partitions, stalled paths, hostile peers.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "bmi/sim/raw_peer.h"
#include "bmi/sim/test_cluster.h"

namespace spate::bmi::sim {
namespace {

using namespace std::chrono_literals;

struct Two {
  explicit Two(std::uint64_t seed = 1, FabricOptions options = {}) : cluster(seed, options) {
    to_b = cluster.lookup(a, b);
    to_a = cluster.introduce(a, to_b, b);
  }
  Cluster cluster;
  Process& a = cluster.start(1);
  Process& b = cluster.start(2);
  Address to_a;
  Address to_b;
};

TEST(Faults, AKillFailsTheProcessAtOnceAndItsPeersAfterALatency) {
  Two two;
  Bytes room(100);
  Bytes other_room(100);
  const Bytes data(50);
  const OpId here = two.cluster.recv(two.b, two.to_a, 1, room);
  const OpId there = two.cluster.recv(two.a, two.to_b, 1, other_room);
  two.cluster.settle();
  const MonoTime killed = two.cluster.clock.now();
  two.cluster.fabric.kill_node(2);
  two.cluster.test_all();
  EXPECT_EQ(two.b.done.at(here).status, Errc::kConnectionLost);
  EXPECT_FALSE(two.a.done.contains(there)) << "the other side cannot know of the death yet";
  const std::array<Segment, 1> segments{Segment::of(ByteView(data))};
  EXPECT_ERRC(two.b.network->post_send({two.to_a, Tag{1}, MessageClass::kControl, segments}, two.b.context, nullptr),
              Errc::kConnectionLost);
  EXPECT_EQ(two.cluster.finish(two.a, there), Errc::kConnectionLost);
  EXPECT_GT(two.cluster.clock.now(), killed);
}

TEST(Faults, NothingLeavesAKilledProcess) {
  Two two;
  const Bytes data(10);
  // The packet waits in the interface's queue, behind a large one that is still leaving.
  two.cluster.fabric.links().set_nic(2, {.bytes_per_second = 1'000'000});
  const Bytes large(200'000);
  two.cluster.request(two.b, two.to_a, 5, large);
  two.cluster.request(two.b, two.to_a, 6, data);
  two.cluster.fabric.kill_node(2);
  two.cluster.settle();
  EXPECT_THAT(two.a.arrived, testing::IsEmpty());
  EXPECT_EQ(two.cluster.fabric.next_event_time(), MonoTime::never());
}

TEST(Faults, ARestartedServerIsReachedByTheSameAddressOverANewConnection) {
  Two two;
  two.cluster.fabric.kill_node(2);
  two.cluster.settle();
  Process& again = two.cluster.start(2);
  const Address to_a_again = two.cluster.introduce(two.a, two.to_b, again);
  EXPECT_EQ(two.a.network->peer_info(two.to_b).connection, 2U);
  const Bytes data(100, std::byte{9});
  Bytes room(100);
  const OpId in = two.cluster.recv(two.a, two.to_b, 1, room);
  two.cluster.send(again, to_a_again, 1, data);
  EXPECT_EQ(two.cluster.finish(two.a, in), Errc::kOk);
}

// A client that dies and starts again is another instance with another address. It is not taken for the one that died.
TEST(Faults, AClientStartedAgainHasANewAddress) {
  Two two;
  two.cluster.fabric.kill_node(1);
  two.cluster.settle();
  Process& again = two.cluster.start(1);
  EXPECT_NE(two.cluster.introduce(again, two.cluster.lookup(again, two.b), two.b), two.to_a);
}

TEST(Faults, PeersLearnOfACrashedMachineOnlyWhenItIsBack) {
  Two two;
  Bytes room(100);
  const Bytes data(100);
  const OpId waiting = two.cluster.recv(two.a, two.to_b, 1, room);
  two.cluster.settle();
  two.cluster.fabric.kill_node(2, Death::kMachine);
  two.cluster.request(two.a, two.to_b, 1, data);
  two.cluster.settle();
  EXPECT_FALSE(two.a.done.contains(waiting)) << "nothing was heard from the dead machine";
  EXPECT_TRUE(two.a.network->peer_info(two.to_b).connected) << "nothing was heard from the dead machine";
  Process& again = two.cluster.start(2);
  two.cluster.settle();
  EXPECT_FALSE(two.a.done.contains(waiting)) << "nothing was sent to it yet";
  two.cluster.request(two.a, two.to_b, 2, data);
  EXPECT_EQ(two.cluster.finish(two.a, waiting), Errc::kConnectionLost);
  two.cluster.introduce(two.a, two.to_b, again);
}

TEST(Faults, BothSidesLearnOfADroppedConnectionAndANewOneIsMade) {
  Two two;
  Bytes room(100);
  Bytes other_room(100);
  const OpId at_a = two.cluster.recv(two.a, two.to_b, 1, room);
  const OpId at_b = two.cluster.recv(two.b, two.to_a, 1, other_room);
  two.cluster.fabric.drop_connection(2, 1);
  EXPECT_EQ(two.cluster.finish(two.a, at_a), Errc::kConnectionLost);
  EXPECT_EQ(two.cluster.finish(two.b, at_b), Errc::kConnectionLost);
  EXPECT_EQ(two.cluster.introduce(two.a, two.to_b, two.b), two.to_a);
  EXPECT_EQ(two.b.network->peer_info(two.to_a).connection, 2U);
}

TEST(Faults, APartitionHoldsAndThenDeliversInOrder) {
  FabricOptions options;
  options.link.jitter = 100us;
  Two two(3, options);
  two.cluster.fabric.links().partition(1, 2, true);
  const Bytes data(100);
  for (std::uint64_t i = 0; i < 20; ++i) two.cluster.request(two.a, two.to_b, i, data);
  two.cluster.settle();
  EXPECT_THAT(two.b.arrived, testing::IsEmpty());
  two.cluster.fabric.links().partition(1, 2, false);
  for (std::uint64_t i = 20; i < 40; ++i) two.cluster.request(two.a, two.to_b, i, data);
  two.cluster.settle();
  ASSERT_EQ(two.b.arrived.size(), 40U);
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_EQ(two.b.arrived[i].tag, Tag{i});
}

TEST(Faults, AOneWayFaultAffectsOneDirection) {
  Two two;
  two.cluster.fabric.links().partition_one_way(1, 2, true);
  const Bytes data(100);
  Bytes room(100);
  const OpId in = two.cluster.recv(two.a, two.to_b, 1, room);
  two.cluster.send(two.b, two.to_a, 1, data);
  two.cluster.request(two.a, two.to_b, 2, data);
  two.cluster.settle();
  EXPECT_EQ(two.a.done.at(in).status, Errc::kOk);
  EXPECT_THAT(two.b.arrived, testing::IsEmpty());
}

TEST(Faults, NoConnectionIsMadeAcrossAPartition) {
  Cluster cluster;
  Process& a = cluster.start(1, 1, {.connect_timeout_ms = 250});
  Process& b = cluster.start(2);
  cluster.fabric.links().partition(1, 2, true);
  const Bytes data(100);
  const OpId op = cluster.request(a, cluster.lookup(a, b), 1, data);
  EXPECT_EQ(cluster.finish(a, op), Errc::kUnreachable);
  EXPECT_EQ(cluster.clock.now(), MonoTime{250ms});
  // The call that was in flight arrives at last. Nobody waits for its answer any more.
  cluster.fabric.links().partition(1, 2, false);
  cluster.settle();
  EXPECT_THAT(b.arrived, testing::IsEmpty());
  cluster.introduce(a, cluster.lookup(a, b), b);
}

// The first network of a server hangs. The client uses the second one, and sends there what it had posted.
TEST(Faults, AStalledPathIsReplacedByTheNextPath) {
  Cluster cluster;
  Process& a = cluster.start(1, 2, {.connect_timeout_ms = 100});
  Process& b = cluster.start(2, 2);
  cluster.fabric.links().stall(0, true);
  const Address to_b = cluster.lookup(a, {"sim://2", "sim2://2"});
  const Bytes data(100);
  std::vector<OpId> ops;
  for (std::uint64_t i = 0; i < 10; ++i) ops.push_back(cluster.request(a, to_b, i, data));
  for (const OpId op : ops) EXPECT_EQ(cluster.finish(a, op), Errc::kOk);
  cluster.settle();
  ASSERT_EQ(b.arrived.size(), 10U);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(b.arrived[i].tag, Tag{i});
  EXPECT_EQ(a.network->peer_info(to_b).url, "sim2://2");
}

TEST(Faults, AStallInTheMiddleHoldsOnlyItsPath) {
  Cluster cluster;
  Process& a = cluster.start(1, 2);
  Process& b = cluster.start(2, 2);
  const Address first = cluster.lookup(a, {"sim://2"});
  const Address second = cluster.lookup(a, {"sim2://2"});
  cluster.introduce(a, first, b);
  cluster.introduce(a, second, b);
  cluster.fabric.links().stall(0, true);
  const Bytes data(100);
  cluster.request(a, first, 1, data);
  cluster.request(a, second, 2, data);
  cluster.settle();
  ASSERT_EQ(b.arrived.size(), 1U);
  EXPECT_EQ(b.arrived[0].tag, Tag{2});
  cluster.fabric.links().stall(0, false);
  cluster.settle();
  EXPECT_EQ(b.arrived.size(), 2U);
}

TEST(Faults, TheOldestOfManyLostClientsIsForgotten) {
  Cluster cluster;
  Process& server = cluster.start(1);
  std::vector<Address> clients;
  for (std::uint32_t i = 0; i < 300; ++i) {
    Process& client = cluster.start(100 + i);
    clients.push_back(cluster.introduce(client, cluster.lookup(client, server), server));
    cluster.fabric.kill_node(100 + i);
    cluster.settle();
  }
  EXPECT_NE(server.network->peer_info(clients.back()).url, "");
  EXPECT_EQ(server.network->peer_info(clients.front()).url, "");
}

// Half of the message is in the receive's memory when the receive is cancelled. The rest is dropped, or the connection
// is, as ordered.
TEST(Faults, ACancelledReceiveThatIsBeingFilledMayDropTheConnection) {
  for (const std::uint32_t per_mille : {0U, 1000U}) {
    FabricOptions options;
    options.nic.bytes_per_second = 1'000'000'000;
    options.cancel_drops_per_mille = per_mille;
    Two two(1, options);
    const Bytes data(10'000'000, std::byte{1});
    Bytes room(data.size());
    const OpId in = two.cluster.recv(two.b, two.to_a, 1, room, MessageClass::kBulk);
    const OpId out = two.cluster.send(two.a, two.to_b, 1, data, MessageClass::kBulk);
    two.cluster.fabric.run_until(two.cluster.clock.now() + 5ms);
    ASSERT_EQ(room[0], std::byte{1});
    two.b.network->cancel(in);
    EXPECT_EQ(two.cluster.finish(two.b, in), Errc::kCancelled);
    EXPECT_EQ(two.cluster.finish(two.a, out), per_mille == 0 ? Errc::kOk : Errc::kConnectionLost);
    two.cluster.settle();
    EXPECT_EQ(two.a.network->peer_info(two.to_b).connected, per_mille == 0);
  }
}

// --- hostile peers lose their connection, and nobody else is affected ---

struct Attack {
  Attack() {
    to_server = cluster.lookup(friendly, server);
    raw.connect({1, 0});
    cluster.drive([&] { return raw.connected(); });
  }
  void expect_thrown_out() {
    cluster.settle();
    EXPECT_EQ(raw.losses(), 1U);
    EXPECT_EQ(cluster.fabric.statistics().violations, 1U);
    cluster.introduce(friendly, to_server, server);
  }
  Cluster cluster;
  Process& server = cluster.start(1);
  Process& friendly = cluster.start(2);
  RawPeer raw{cluster.fabric, {66, 0}};
  Address to_server;
};

Packet packet(Packet::Kind kind, std::uint64_t transfer, std::uint64_t size) {
  Packet p;
  p.kind = kind;
  p.message_class = MessageClass::kBulk;
  p.tag = Tag{1};
  p.transfer = transfer;
  p.size = size;
  return p;
}

TEST(Hostile, GarbageArrivesAsTheUnexpectedMessageThatItIs) {
  Attack attack;
  const Bytes garbage(1000, std::byte{0xFF});
  attack.raw.send_unexpected(Tag{0xDEAD}, garbage);
  ASSERT_TRUE(attack.cluster.drive([&] { return !attack.server.arrived.empty(); }));
  EXPECT_EQ(attack.server.arrived[0].tag, Tag{0xDEAD});
  EXPECT_BYTES(attack.server.arrived[0].payload.view(), garbage);
}

TEST(Hostile, AnOversizeUnexpectedMessage) {
  Attack attack;
  attack.raw.send_unexpected(Tag{1}, Bytes(attack.server.network->options().max_unexpected_bytes + 1));
  attack.expect_thrown_out();
}

TEST(Hostile, AFloodOfRequestsBeyondItsCredit) {
  Attack attack;
  const Bytes data(100'000);
  for (int i = 0; i < 100; ++i) attack.raw.send_unexpected(Tag{1}, data);
  // Nobody takes the messages: the test begins when everything has arrived.
  while (attack.cluster.fabric.deliver_next()) {
  }
  attack.cluster.test_all();
  EXPECT_LE(attack.server.arrived.size() * data.size(), attack.server.network->options().buffered_per_peer_bytes);
  attack.server.arrived.clear();
  attack.expect_thrown_out();
}

TEST(Hostile, ComingBackGivesNoNewCredit) {
  Attack attack;
  const Bytes data(100'000);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 10; ++i) attack.raw.send_unexpected(Tag{1}, data);
    while (attack.cluster.fabric.deliver_next()) {
    }
    attack.raw.connect({1, 0});
    while (attack.cluster.fabric.deliver_next()) {
    }
  }
  attack.cluster.test_all();
  EXPECT_LE(attack.server.arrived.size() * data.size(), attack.server.network->options().buffered_per_peer_bytes);
}

TEST(Hostile, EagerAndAnnouncedMessagesBeyondCredit) {
  for (const Packet::Kind kind : {Packet::Kind::kEager, Packet::Kind::kAnnounce, Packet::Kind::kReady}) {
    Attack attack;
    for (std::uint64_t i = 1; i < 20'000 && attack.raw.connected(); ++i) {
      Packet p = packet(kind, i, 1000);
      if (kind == Packet::Kind::kEager) p.payload.resize(1000);
      attack.raw.send(std::move(p));
    }
    attack.expect_thrown_out();
  }
}

TEST(Hostile, DataOfAnUnknownTransferOrBeyondItsEndIsRefused) {
  {
    Attack attack;
    Packet p = packet(Packet::Kind::kData, 7, 0);
    p.payload.resize(10);
    attack.raw.send(std::move(p));
    attack.expect_thrown_out();
  }
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    Attack attack;
    attack.raw.send(packet(Packet::Kind::kReady, 7, 5));
    Packet p = packet(Packet::Kind::kData, 7, 0);
    p.offset = offset;
    p.payload.resize(10);
    attack.raw.send(std::move(p));
    attack.expect_thrown_out();
  }
}

TEST(Hostile, RandomPacketsCostTheirSenderTheConnectionAtMost) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Attack attack;
    SeededRandom random(seed);
    Bytes room(3000);
    attack.raw.send_unexpected(Tag{1}, {});
    attack.cluster.drive([&] { return !attack.server.arrived.empty(); });
    const Address enemy = attack.server.arrived.front().peer;
    attack.server.arrived.clear();
    const OpId in = attack.cluster.recv(attack.server, enemy, 1, room, MessageClass::kBulk);
    for (int i = 0; i < 100; ++i) {
      Packet p;
      p.kind = static_cast<Packet::Kind>(random.below(9));
      p.message_class = random.chance(1, 2) ? MessageClass::kBulk : MessageClass::kControl;
      p.tag = Tag{random.below(3)};
      p.transfer = random.below(4);
      p.size = random.chance(1, 10) ? random.next() : random.below(5000);
      p.offset = random.chance(1, 10) ? random.next() : random.below(2) * 1000;
      p.payload.resize(random.below(2000));
      p.ready = random.chance(1, 4);
      for (std::uint64_t& credit : p.credits) credit = random.chance(1, 10) ? random.next() : 0;
      attack.raw.send(std::move(p));
    }
    attack.cluster.settle();
    attack.server.network->cancel(in);
    attack.cluster.finish(attack.server, in);
    attack.server.arrived.clear();
    attack.cluster.introduce(attack.friendly, attack.to_server, attack.server);
  }
}

}  // namespace
}  // namespace spate::bmi::sim
