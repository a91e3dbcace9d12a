// SPDX-License-Identifier: Apache-2.0
// Time, links and determinism.
#include "bmi/sim/fabric.h"

#include <gmock/gmock.h>

#include "base/expect.h"
#include "bmi/sim/test_cluster.h"

namespace spate::bmi::sim {
namespace {

using namespace std::chrono_literals;

FabricOptions gigabyte_per_second() {
  FabricOptions options;
  options.link.latency = 10us;
  options.nic.bytes_per_second = 1'000'000'000;
  return options;
}

TEST(EventQueue, RunsInTheOrderOfTimeThenOfScheduling) {
  EventQueue queue;
  std::string log;
  queue.at(MonoTime{5ns}, [&] { log += 'c'; });
  queue.at(MonoTime{1ns}, [&] { log += 'a'; });
  const EventQueue::Key gone = queue.at(MonoTime{2ns}, [&] { log += 'x'; });
  queue.at(MonoTime{5ns}, [&] { log += 'd'; });
  queue.at(MonoTime{3ns}, [&] { log += 'b'; });
  queue.cancel(gone);
  EXPECT_EQ(queue.next_time(), MonoTime{1ns});
  while (!queue.empty()) queue.take()();
  EXPECT_EQ(log, "abcd");
  EXPECT_EQ(queue.next_time(), MonoTime::never());
}

TEST(NetworkInterface, UrlsAreParsedAsTheyWerePrinted) {
  for (const NetworkInterface interface :
       {NetworkInterface{0, 0}, NetworkInterface{17, 0}, NetworkInterface{17, 1}, NetworkInterface{4'000'000'000, 9}}) {
    EXPECT_EQ(parse_url(url_of(interface)), interface);
  }
  EXPECT_EQ(url_of({3, 1}), "sim2://3");
  for (const char* bad : {"sim://", "sim://x", "sim:/1", "sim0://1", "sim1://1", "sim://1 ", "sim://-1",
                          "sim://4294967296", "simx://1", "tcp://1", ""}) {
    EXPECT_EQ(parse_url(bad), std::nullopt) << bad;
  }
}

// One message of 100 MB at 1 GB/s takes 0.1 s and little more.
TEST(Fabric, ATransferTakesItsTime) {
  Cluster cluster(1, gigabyte_per_second());
  Process& a = cluster.start(1);
  Process& b = cluster.start(2);
  const Address to_b = cluster.lookup(a, b);
  const Address to_a = cluster.introduce(a, to_b, b);
  const Bytes data(100'000'000);
  Bytes room(data.size());
  const MonoTime begin = cluster.clock.now();
  const OpId in = cluster.recv(b, to_a, 1, room, MessageClass::kBulk);
  cluster.send(a, to_b, 1, data, MessageClass::kBulk);
  EXPECT_EQ(cluster.finish(b, in), Errc::kOk);
  EXPECT_GE(cluster.clock.now() - begin, 100ms);
  EXPECT_LE(cluster.clock.now() - begin, 101ms);
}

// Four senders share the receiver's interface, however fast their own interfaces are.
TEST(Fabric, ReceivingQueuesAtTheReceiver) {
  Cluster cluster(1, gigabyte_per_second());
  Process& sink = cluster.start(1);
  std::vector<Bytes> rooms(4, Bytes(10'000'000));
  const Bytes data(10'000'000);
  std::vector<OpId> receives;
  std::vector<std::pair<Process*, Address>> senders;
  for (std::uint32_t i = 0; i < 4; ++i) {
    Process& sender = cluster.start(10 + i);
    senders.emplace_back(&sender, cluster.lookup(sender, sink));
    receives.push_back(
        cluster.recv(sink, cluster.introduce(sender, senders.back().second, sink), 1, rooms[i], MessageClass::kBulk));
  }
  const MonoTime begin = cluster.clock.now();
  for (const auto& [sender, address] : senders) cluster.send(*sender, address, 1, data, MessageClass::kBulk);
  for (const OpId op : receives) EXPECT_EQ(cluster.finish(sink, op), Errc::kOk);
  EXPECT_GE(cluster.clock.now() - begin, 40ms);
  EXPECT_LE(cluster.clock.now() - begin, 42ms);
}

TEST(Fabric, SendingQueuesAtTheSender) {
  Cluster cluster(1, gigabyte_per_second());
  Process& source = cluster.start(1);
  std::vector<Bytes> rooms(4, Bytes(10'000'000));
  const Bytes data(10'000'000);
  std::vector<std::pair<Process*, OpId>> receives;
  std::vector<Address> receivers;
  for (std::uint32_t i = 0; i < 4; ++i) {
    Process& receiver = cluster.start(10 + i);
    receivers.push_back(cluster.lookup(source, receiver));
    const Address back = cluster.introduce(source, receivers.back(), receiver);
    receives.emplace_back(&receiver, cluster.recv(receiver, back, 1, rooms[i], MessageClass::kBulk));
  }
  const MonoTime begin = cluster.clock.now();
  for (const Address address : receivers) cluster.send(source, address, 1, data, MessageClass::kBulk);
  EXPECT_EQ(cluster.finish(*receives[0].first, receives[0].second), Errc::kOk);
  EXPECT_GE(cluster.clock.now() - begin, 38ms) << "they take turns: the first ends shortly before the last";
  for (const auto& [process, op] : receives) EXPECT_EQ(cluster.finish(*process, op), Errc::kOk);
  EXPECT_LE(cluster.clock.now() - begin, 42ms);
}

TEST(Fabric, ControlDoesNotQueueBehindBulk) {
  Cluster cluster(1, gigabyte_per_second());
  Process& a = cluster.start(1);
  Process& b = cluster.start(2);
  const Address to_b = cluster.lookup(a, b);
  const Address to_a = cluster.introduce(a, to_b, b);
  const Bytes data(50'000'000);
  Bytes room(data.size());
  cluster.recv(b, to_a, 1, room, MessageClass::kBulk);
  cluster.send(a, to_b, 1, data, MessageClass::kBulk);
  cluster.fabric.run_until(cluster.clock.now() + 5ms);
  // The test tries several moments, since a bulk packet may have just ended at any one of them.
  for (std::size_t i = 0; i < 10; ++i) {
    cluster.fabric.run_until(cluster.clock.now() + 37us);
    const MonoTime begin = cluster.clock.now();
    cluster.request(a, to_b, 2, {data.data(), 100});
    ASSERT_TRUE(cluster.drive([&] { return b.arrived.size() == i + 1; }));
    EXPECT_LE(cluster.clock.now() - begin, 20us);
  }
}

TEST(Fabric, ALinkHasItsOwnLatency) {
  Cluster cluster(1, gigabyte_per_second());
  cluster.fabric.links().set_link(2, 1, {.latency = 7ms});
  Process& a = cluster.start(1);
  Process& b = cluster.start(2);
  const Address to_b = cluster.lookup(a, b);
  cluster.introduce(a, to_b, b);
  EXPECT_GE(cluster.clock.now().since_start, 21ms);  // the way there and back, and the message
  EXPECT_LT(cluster.clock.now().since_start, 22ms);
}

TEST(Fabric, RunUntilStopsTheClockAtTheGivenTime) {
  Cluster cluster;
  int ran = 0;
  cluster.fabric.at(MonoTime{10ms}, [&] { ++ran; });
  cluster.fabric.at(MonoTime{30ms}, [&] { ++ran; });
  EXPECT_EQ(cluster.fabric.next_event_time(), MonoTime{10ms});
  cluster.fabric.run_until(MonoTime{20ms});
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(cluster.clock.now(), MonoTime{20ms});
  EXPECT_TRUE(cluster.fabric.deliver_next()) << "the second event is left";
  EXPECT_EQ(cluster.clock.now(), MonoTime{30ms});
  EXPECT_FALSE(cluster.fabric.deliver_next()) << "no event is left";
  EXPECT_EQ(cluster.fabric.next_event_time(), MonoTime::never());
}

FabricOptions restless() {
  FabricOptions options;
  options.link.jitter = 300us;
  options.link.slow_per_mille = 50;
  return options;
}

// The order in which requests arrive (one stream), and in which receives with different tags complete (many streams).
struct Story {
  std::uint64_t digest = 0;
  MonoTime end;
  std::vector<std::uint64_t> requests;
  std::vector<std::uint64_t> completed;
};

Story tell(std::uint64_t seed) {
  Cluster cluster(seed, restless());
  Process& a = cluster.start(1);
  Process& b = cluster.start(2);
  const Address to_b = cluster.lookup(a, b);
  const Address to_a = cluster.introduce(a, to_b, b);
  const Bytes data(20'000, std::byte{1});
  std::vector<Bytes> rooms(50, Bytes(data.size()));
  std::vector<OpId> receives;
  for (std::uint64_t i = 0; i < rooms.size(); ++i) receives.push_back(cluster.recv(b, to_a, i, rooms[i]));
  for (std::uint64_t i = 0; i < rooms.size(); ++i) {
    cluster.send(a, to_b, i, {data.data(), i % 2 == 0 ? data.size() : 100});
    cluster.request(a, to_b, i, {data.data(), i});
  }
  Story story;
  std::vector<bool> seen(rooms.size());
  cluster.drive([&] {
    for (std::size_t i = 0; i < receives.size(); ++i) {
      if (!seen[i] && b.done.contains(receives[i])) story.completed.push_back(i);
      seen[i] = b.done.contains(receives[i]);
    }
    return false;
  });
  for (const UnexpectedMessage& message : b.arrived) story.requests.push_back(message.tag.value);
  story.digest = cluster.fabric.digest();
  story.end = cluster.clock.now();
  return story;
}

TEST(Fabric, TheSameSeedGivesTheSameEvents) {
  const Story first = tell(42);
  const Story again = tell(42);
  EXPECT_EQ(first.digest, again.digest);
  EXPECT_EQ(first.end, again.end);
  EXPECT_EQ(first.completed, again.completed);
  EXPECT_NE(first.digest, tell(43).digest);
}

TEST(Fabric, StreamsOvertakeEachOtherButKeepTheirOwnOrder) {
  const Story story = tell(42);
  ASSERT_EQ(story.completed.size(), 50U);
  EXPECT_THAT(story.completed, testing::Not(testing::WhenSorted(testing::Eq(story.completed))));
  ASSERT_EQ(story.requests.size(), 50U);
  EXPECT_THAT(story.requests, testing::WhenSorted(testing::Eq(story.requests)));
}

TEST(Fabric, FileSegmentsAreReadThroughTheHook) {
  Cluster cluster;
  Process& a = cluster.start(1);
  Process& b = cluster.start(2);
  // A simulated store of node 1. Its descriptor 1000007 has 70,000 bytes, which are read in small pieces.
  cluster.fabric.hosts().set_file_reader(
      [](std::uint32_t node, int fd, std::uint64_t offset, MutableByteView out) -> Result<std::size_t> {
        EXPECT_EQ(node, 1U);
        EXPECT_EQ(fd, 1'000'007);
        const std::size_t n =
            offset >= 70'000 ? 0 : std::min<std::size_t>({out.size(), 1000, static_cast<std::size_t>(70'000 - offset)});
        std::fill_n(out.data(), n, std::byte{0xAB});
        return n;
      });
  const Address to_b = cluster.lookup(a, b);
  const Address to_a = cluster.introduce(a, to_b, b);
  Bytes room(100'000, std::byte{1});
  const OpId in = cluster.recv(b, to_a, 1, room);
  const std::array<Segment, 1> segments{Segment::of_file(1'000'007, 20'000, 100'000)};
  cluster.post(a, a.network->post_send({to_b, Tag{1}, MessageClass::kControl, segments}, a.context, nullptr));
  EXPECT_EQ(cluster.finish(b, in), Errc::kOk);
  EXPECT_EQ(std::count(room.begin(), room.end(), std::byte{0xAB}), 50'000);
  EXPECT_EQ(std::count(room.begin() + 50'000, room.end(), std::byte{0}), 50'000);
}

}  // namespace
}  // namespace spate::bmi::sim
