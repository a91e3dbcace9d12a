// SPDX-License-Identifier: Apache-2.0
// Unexpected messages: content, order, limits, and which context gets them.
#include <gmock/gmock.h>

#include <array>

#include "base/expect.h"
#include "tests/bmi/harness.h"

namespace spate::bmi::conformance {
namespace {

TEST_P(Bmi, UnexpectedMessagesArriveInOrder) {
  const Pair pair = start_pair();
  constexpr std::uint64_t kCount = 200;
  std::vector<Bytes> data;
  std::vector<OpId> sends;
  for (std::uint64_t i = 0; i < kCount; ++i) data.push_back(pattern(i, i, i * 37 % 3000));
  for (std::uint64_t i = 0; i < kCount; ++i)
    sends.push_back(send_unexpected(*pair.client, {pair.to_server, i}, data[i]));
  ASSERT_TRUE(drive([&] { return pair.server->arrived.size() == kCount; }))
      << pair.server->arrived.size() << " have arrived";
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const UnexpectedMessage& message = pair.server->arrived[i];
    EXPECT_EQ(message.peer, pair.to_client);
    ASSERT_EQ(message.tag, Tag{i});
    ASSERT_EQ(message.payload.size(), data[i].size());
    EXPECT_EQ(first_difference(message.payload.view(), i, i), std::nullopt);
  }
  for (const OpId op : sends) EXPECT_EQ(finish(*pair.client, op).status, Errc::kOk);
}

TEST_P(Bmi, UnexpectedMessagesUpToTheMaximum) {
  const Pair pair = start_pair();
  const std::uint64_t max = (*pair.client)->options().max_unexpected_bytes;
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, max - 1, max}) {
    SCOPED_TRACE(size);
    Bytes data = pattern(8, size, size);
    const std::size_t half = static_cast<std::size_t>(size / 2);
    const std::array<Segment, 2> pieces{Segment::of(MutableByteView(data.data(), half)),
                                        Segment::of(MutableByteView(data.data() + half, data.size() - half))};
    const Message message{pair.to_server, Tag{8}, MessageClass::kControl, pieces};
    const OpId op = posted(*pair.client, (*pair.client)->post_send_unexpected(message, pair.client->context, nullptr));
    EXPECT_EQ(finish(*pair.client, op).actual_size, size);
    ASSERT_TRUE(drive([&] { return !pair.server->arrived.empty(); })) << "nothing has arrived";
    EXPECT_EQ(pair.server->arrived.front().payload.size(), size);
    EXPECT_EQ(first_difference(pair.server->arrived.front().payload.view(), 8, size), std::nullopt);
    pair.server->arrived.clear();
  }
}

TEST_P(Bmi, AnOversizeUnexpectedMessageIsRefusedAtThePost) {
  const Pair pair = start_pair();
  const Bytes data(static_cast<std::size_t>((*pair.client)->options().max_unexpected_bytes) + 1);
  const std::array<Segment, 1> pieces{Segment::of(data)};
  const Message message{pair.to_server, Tag{8}, MessageClass::kControl, pieces};
  EXPECT_ERRC((*pair.client)->post_send_unexpected(message, pair.client->context, nullptr), Errc::kMessageTooBig);
  settle();
  EXPECT_THAT(pair.server->arrived, testing::IsEmpty());
  expect_passes(pair, 1, 100);
}

TEST_P(Bmi, AnUnexpectedMessageIsNotTakenByAReceiveAndTheReverse) {
  const Pair pair = start_pair();
  Bytes room(100);
  const OpId in = recv(*pair.server, {pair.to_client, 7}, room);
  const Bytes unexpected = pattern(7, 1, 50);
  const Bytes expected = pattern(7, 2, 60);
  const OpId first = send_unexpected(*pair.client, {pair.to_server, 7}, unexpected);
  ASSERT_TRUE(drive([&] { return !pair.server->arrived.empty(); })) << "nothing has arrived";
  EXPECT_FALSE(is_done(*pair.server, in));
  const OpId second = send(*pair.client, {pair.to_server, 7}, expected);
  EXPECT_EQ(finish(*pair.server, in).actual_size, 60U);
  EXPECT_EQ(first_difference({room.data(), 60}, 7, 2), std::nullopt);
  EXPECT_EQ(pair.server->arrived.size(), 1U);
  finish(*pair.client, first);
  finish(*pair.client, second);
}

TEST_P(Bmi, ASenderOfUnexpectedMessagesCanBeAnswered) {
  Process& server = start(true);
  std::vector<Process*> clients;
  std::vector<Address> addresses;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(&start(false));
    addresses.push_back(introduce(*clients.back(), lookup(*clients.back(), server.url), server));
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    expect_passes({clients[i], &server, lookup(*clients[i], server.url), addresses[i]}, 50 + i, 30'000, false);
  }
}

// Each listener has a context, and the messages of one never appear in another.
TEST_P(Bmi, UnexpectedMessagesGoToTheListenersContext) {
  Process& server = start(true);
  const ContextId other = server->open_context();
  Process& client = start(false);
  const Bytes data = pattern(1, 1, 100);
  const OpId op = send_unexpected(client, {lookup(client, server.url), 1}, data);
  server.takes_unexpected = false;
  settle();
  std::array<UnexpectedMessage, 4> messages;
  EXPECT_EQ(server->test_unexpected(other, messages), 0U);
  EXPECT_EQ(server->test_unexpected(server.context, messages), 1U);
  finish(client, op);
  server->close_context(other);
}

TEST_P(Bmi, TestUnexpectedYieldsNoMoreThanThereIsRoomFor) {
  const Pair pair = start_pair();
  pair.server->takes_unexpected = false;
  const Bytes data = pattern(1, 1, 10);
  for (std::uint64_t i = 0; i < 5; ++i) send_unexpected(*pair.client, {pair.to_server, i}, data);
  settle();
  std::array<UnexpectedMessage, 2> messages;
  std::uint64_t seen = 0;
  ASSERT_TRUE(drive([&] {
    const std::size_t n = (*pair.server)->test_unexpected(pair.server->context, messages);
    EXPECT_LE(n, messages.size());
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(messages[i].tag, Tag{seen++});
    return seen == 5;
  }));
}

}  // namespace
}  // namespace spate::bmi::conformance
