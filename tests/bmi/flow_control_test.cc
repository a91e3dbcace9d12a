// SPDX-License-Identifier: Apache-2.0
// Nobody can make the other side buffer without bound, and messages that wait for room delay no others.
#include <array>

#include "base/expect_bytes.h"
#include "tests/bmi/harness.h"

namespace spate::bmi::conformance {
namespace {

constexpr std::uint64_t kRoom = 64 * 1024;

NetworkOptions small_room() {
  NetworkOptions options;
  options.buffered_per_peer_bytes = kRoom;
  options.max_unexpected_bytes = 32 * 1024;
  // A server that nobody tests does not answer a second connection. A slow machine takes seconds to fill the first one.
  options.connect_timeout_ms = 60'000;
  return options;
}

class Flood {
 public:
  explicit Flood(std::size_t size) : data(pattern(1, 1, size)) {}
  Bytes data;
  std::vector<OpId> ops;
};

// How many bytes of the flood have left, as far as the sender knows.
std::uint64_t bytes_done(const Process& peer, const Flood& flood) {
  std::uint64_t n = 0;
  for (const OpId op : flood.ops) n += peer.done.contains(op) ? flood.data.size() : 0;
  return n;
}

TEST_P(Bmi, UnexpectedMessagesWaitForAPeerThatTakesNone) {
  const Pair pair = start_pair(small_room());
  const std::uint64_t bound = kRoom + world_->traits().transit_bytes;
  Flood flood(8 * 1024);
  const std::size_t count = static_cast<std::size_t>(4 * bound / flood.data.size());
  pair.server->takes_unexpected = false;
  for (std::size_t i = 0; i < count; ++i)
    flood.ops.push_back(send_unexpected(*pair.client, {pair.to_server, i}, flood.data));
  settle();
  EXPECT_LE(bytes_done(*pair.client, flood), bound);
  EXPECT_GT(bytes_done(*pair.client, flood), 0U);

  pair.server->takes_unexpected = true;
  ASSERT_TRUE(drive([&] { return pair.server->arrived.size() == count; }))
      << pair.server->arrived.size() << " have arrived";
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(pair.server->arrived[i].tag, Tag{i});
  for (const OpId op : flood.ops) EXPECT_EQ(finish(*pair.client, op).status, Errc::kOk);
}

TEST_P(Bmi, SendsWaitForAPeerThatNeverTests) {
  const Pair pair = start_pair(small_room());
  const std::uint64_t bound = kRoom + world_->traits().transit_bytes;
  Flood flood(8 * 1024);
  const std::size_t count = static_cast<std::size_t>(4 * bound / flood.data.size());
  pair.server->tested = false;
  for (std::size_t i = 0; i < count; ++i) {
    flood.ops.push_back(send(*pair.client, {pair.to_server, 1, MessageClass::kBulk}, flood.data));
  }
  settle();
  EXPECT_LE(bytes_done(*pair.client, flood), bound);

  pair.server->tested = true;
  std::vector<Bytes> rooms(count, Bytes(flood.data.size()));
  std::vector<OpId> receives;
  for (Bytes& room : rooms) receives.push_back(recv(*pair.server, {pair.to_client, 1, MessageClass::kBulk}, room));
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(finish(*pair.server, receives[i]).status, Errc::kOk);
    ASSERT_EQ(first_difference(rooms[i], 1, 1), std::nullopt);
  }
  for (const OpId op : flood.ops) EXPECT_EQ(finish(*pair.client, op).status, Errc::kOk);
}

TEST_P(Bmi, SendsWaitForAPeerThatPostsNoReceive) {
  const Pair pair = start_pair(small_room());
  const std::uint64_t bound = kRoom + world_->traits().transit_bytes;
  for (const std::size_t size : {std::size_t{4000}, std::size_t{500'000}}) {
    SCOPED_TRACE(size);
    Flood flood(size);
    const std::size_t count = static_cast<std::size_t>(3 * bound / size) + 3;
    for (std::size_t i = 0; i < count; ++i) flood.ops.push_back(send(*pair.client, {pair.to_server, size}, flood.data));
    settle();
    EXPECT_LE(bytes_done(*pair.client, flood), bound);
    Bytes room(size);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(finish(*pair.server, recv(*pair.server, {pair.to_client, size}, room)).status, Errc::kOk);
    }
    for (const OpId op : flood.ops) EXPECT_EQ(finish(*pair.client, op).status, Errc::kOk);
  }
}

// Messages that wait at the sender are at most announced. Announcements are bounded, too, and an honest sender is never
// dropped because of them.
TEST_P(Bmi, TenThousandLargeMessagesWithoutAReceive) {
  const Pair pair = start_pair();
  Flood flood(17 * 1024);
  for (int i = 0; i < 10'000; ++i)
    flood.ops.push_back(send(*pair.client, {pair.to_server, 3, MessageClass::kBulk}, flood.data));
  settle();
  EXPECT_EQ((*pair.client)->peer_info(pair.to_server).connection, 1U);
  EXPECT_EQ(bytes_done(*pair.client, flood), 0U);
  Bytes room(flood.data.size());
  for (std::size_t i = 0; i < flood.ops.size(); ++i) {
    ASSERT_EQ(finish(*pair.server, recv(*pair.server, {pair.to_client, 3, MessageClass::kBulk}, room)).status,
              Errc::kOk)
        << i;
  }
  EXPECT_EQ(first_difference(room, 1, 1), std::nullopt);
  for (const OpId op : flood.ops) ASSERT_EQ(finish(*pair.client, op).status, Errc::kOk);
}

// A peer that comes back has no more room than one that stayed. Its earlier messages still wait to be taken.
TEST_P(Bmi, ComingBackGivesNoNewRoom) {
  const Pair pair = start_pair(small_room());
  pair.server->takes_unexpected = false;
  Flood flood(8 * 1024);
  for (int round = 0; round < 4; ++round) {
    flood.ops.clear();
    for (int i = 0; i < 50; ++i) flood.ops.push_back(send_unexpected(*pair.client, {pair.to_server, 1}, flood.data));
    settle();
    for (const OpId op : flood.ops) {
      if (is_done(*pair.client, op)) EXPECT_EQ(pair.client->done.at(op).status, Errc::kOk) << "thrown out";
    }
    if (round < 3) (*pair.client)->disconnect(pair.to_server);
    settle();
  }
  kill(*pair.client);
  pair.server->takes_unexpected = true;
  settle();
  EXPECT_GT(pair.server->arrived.size(), 0U);
  EXPECT_LE(pair.server->arrived.size() * flood.data.size(), kRoom);
}

// The receiver asks for the last tag first. A sender whose messages waited behind each other for room would hang both
// sides.
TEST_P(Bmi, ATagWithoutRoomHoldsUpNoOther) {
  const Pair pair = start_pair(small_room());
  constexpr std::uint64_t kTags = 100;
  std::vector<Bytes> data;
  std::vector<OpId> sends;
  for (std::uint64_t tag = 0; tag < kTags; ++tag) data.push_back(pattern(tag, 0, 8 * 1024));
  for (std::uint64_t tag = 0; tag < kTags; ++tag) sends.push_back(send(*pair.client, {pair.to_server, tag}, data[tag]));
  settle();
  for (std::uint64_t tag = kTags; tag-- > 0;) {
    Bytes room(8 * 1024);
    ASSERT_EQ(finish(*pair.server, recv(*pair.server, {pair.to_client, tag}, room)).status, Errc::kOk) << tag;
    ASSERT_EQ(first_difference(room, tag, 0), std::nullopt);
  }
  for (const OpId op : sends) EXPECT_EQ(finish(*pair.client, op).status, Errc::kOk);
}

TEST_P(Bmi, UntakenRequestsDoNotDelayReplies) {
  const Pair pair = start_pair(small_room());
  pair.server->takes_unexpected = false;
  Flood requests(8 * 1024);
  for (std::uint64_t i = 0; i < 100; ++i)
    requests.ops.push_back(send_unexpected(*pair.client, {pair.to_server, i}, requests.data));
  settle();
  expect_passes(pair, 1000, 5000);
  expect_passes(pair, 1001, 200'000);
  pair.server->takes_unexpected = true;
  EXPECT_TRUE(drive([&] { return pair.server->arrived.size() == 100; }))
      << pair.server->arrived.size() << " have arrived";
}

// The receiver may post these receives only after it has read the request.
TEST_P(Bmi, UnreceivedMessagesDoNotDelayRequests) {
  const Pair pair = start_pair(small_room());
  Flood answers(8 * 1024);
  for (std::uint64_t i = 0; i < 100; ++i) answers.ops.push_back(send(*pair.client, {pair.to_server, 7}, answers.data));
  settle();
  const OpId request = send_unexpected(*pair.client, {pair.to_server, 8}, answers.data);
  ASSERT_TRUE(drive([&] { return !pair.server->arrived.empty(); })) << "nothing has arrived";
  EXPECT_EQ(pair.server->arrived.front().tag, Tag{8});
  finish(*pair.client, request);
  Bytes room(8 * 1024);
  for (std::size_t i = 0; i < answers.ops.size(); ++i) {
    ASSERT_EQ(finish(*pair.server, recv(*pair.server, {pair.to_client, 7}, room)).status, Errc::kOk);
  }
}

TEST_P(Bmi, ControlPassesWhileBulkIsSaturated) {
  const Pair pair = start_pair(small_room());
  Flood small(8 * 1024);
  Flood large(8 * 1024 * 1024);
  Bytes room(large.data.size());
  const OpId first = recv(*pair.server, {pair.to_client, 2, MessageClass::kBulk}, room);
  for (int i = 0; i < 200; ++i)
    small.ops.push_back(send(*pair.client, {pair.to_server, 1, MessageClass::kBulk}, small.data));
  for (int i = 0; i < 4; ++i)
    large.ops.push_back(send(*pair.client, {pair.to_server, 2, MessageClass::kBulk}, large.data));
  for (std::uint64_t i = 0; i < 20; ++i) {
    expect_passes(pair, 100 + i, 500);
    expect_passes(pair, 200 + i, 500, false);
    const OpId request = send_unexpected(*pair.client, {pair.to_server, i}, {small.data.data(), 100});
    ASSERT_TRUE(drive([&] { return pair.server->arrived.size() == i + 1; }))
        << pair.server->arrived.size() << " have arrived";
    finish(*pair.client, request);
  }
  EXPECT_EQ(finish(*pair.server, first).status, Errc::kOk);
  EXPECT_EQ(first_difference(room, 1, 1), std::nullopt);
  EXPECT_FALSE(is_done(*pair.client, large.ops.back())) << "bulk was to be stuck";
}

TEST_P(Bmi, ReadyMessagesArriveWhole) {
  const Pair pair = start_pair();
  std::uint64_t tag = 1;
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{70'000}, std::size_t{3'000'000}}) {
    SCOPED_TRACE(size);
    ++tag;
    const Bytes data = pattern(tag, 0, size);
    Bytes room(size);
    const OpId in = recv(*pair.server, {pair.to_client, tag, MessageClass::kBulk}, room);
    const OpId out =
        send(*pair.client,
             {.peer = pair.to_server, .tag = tag, .message_class = MessageClass::kBulk, .receiver_ready = true}, data);
    EXPECT_EQ(finish(*pair.server, in).actual_size, size);
    EXPECT_EQ(finish(*pair.client, out).status, Errc::kOk);
    EXPECT_EQ(first_difference(room, tag, 0), std::nullopt);
  }
}

TEST_P(Bmi, AReadyMessageWhoseReceiveIsGoneIsDroppedAndTheConnectionLives) {
  const Pair pair = start_pair();
  const std::uint32_t connection = (*pair.client)->peer_info(pair.to_server).connection;
  for (const std::size_t size : {std::size_t{500}, std::size_t{3'000'000}}) {
    SCOPED_TRACE(size);
    const Bytes data = pattern(5, 1, size);
    Bytes room(data.size(), std::byte{0x77});
    const OpId in = recv(*pair.server, {pair.to_client, 5, MessageClass::kBulk}, room);
    (*pair.server)->cancel(in);
    EXPECT_EQ(finish(*pair.server, in).status, Errc::kCancelled);
    const OpId out =
        send(*pair.client,
             {.peer = pair.to_server, .tag = 5, .message_class = MessageClass::kBulk, .receiver_ready = true}, data);
    EXPECT_EQ(finish(*pair.client, out).status, Errc::kOk);
    settle();
    EXPECT_BYTES(room, Bytes(room.size(), std::byte{0x77}));
    // The next receive does not get the dropped message.
    expect_passes(pair, 5, size, true, MessageClass::kBulk);
  }
  EXPECT_EQ((*pair.client)->peer_info(pair.to_server).connection, connection);
}

TEST_P(Bmi, AReadyMessageLongerThanItsReceiveFailsItAndTheConnectionLives) {
  const Pair pair = start_pair();
  const std::uint32_t connection = (*pair.client)->peer_info(pair.to_server).connection;
  const Bytes data = pattern(5, 0, 3'000'000);
  Bytes room(1'000'000);
  const OpId in = recv(*pair.server, {pair.to_client, 5, MessageClass::kBulk}, room);
  const OpId out =
      send(*pair.client,
           {.peer = pair.to_server, .tag = 5, .message_class = MessageClass::kBulk, .receiver_ready = true}, data);
  EXPECT_EQ(finish(*pair.server, in).status, Errc::kMessageTooBig);
  finish(*pair.client, out);
  expect_passes(pair, 5, 3'000'000, true, MessageClass::kBulk);
  EXPECT_EQ((*pair.client)->peer_info(pair.to_server).connection, connection);
}

}  // namespace
}  // namespace spate::bmi::conformance
