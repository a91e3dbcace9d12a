// SPDX-License-Identifier: Apache-2.0
// Cancel, in every state that an operation can be in. After its completion nobody touches the memory any more. The
// messages that follow are undisturbed, or the connection was lost and comes back.
#include <gmock/gmock.h>

#include <cstring>

#include "base/expect.h"
#include "tests/bmi/harness.h"

namespace spate::bmi::conformance {
namespace {

/// What a cancelled operation may end with: it was too late, or it worked, or the connection had to be dropped.
auto is_an_end() { return testing::AnyOf(Errc::kOk, Errc::kCancelled, Errc::kConnectionLost); }

/// The next moment of a transfer at which to cancel, after so many steps. A real network gives other moments in each
/// run.
int later(int steps, const World& world) {
  return steps + 1 + steps / (world.traits().virtual_time || thorough() ? 8 : 3);
}

TEST_P(Bmi, CancelOfAReceiveThatWaits) {
  const Pair pair = start_pair();
  const std::uint32_t connection = (*pair.client)->peer_info(pair.to_server).connection;
  Bytes room(100, std::byte{3});
  const OpId in = recv(*pair.server, {pair.to_client, 1}, room);
  const OpId next = recv(*pair.server, {pair.to_client, 1}, {room.data(), 50});
  (*pair.server)->cancel(in);
  const Completion c = finish(*pair.server, in);
  EXPECT_EQ(c.status, Errc::kCancelled);
  EXPECT_EQ(c.actual_size, 0U);
  // Its place in the order passes to the next one.
  const Bytes data = pattern(1, 0, 50);
  const OpId out = send(*pair.client, {pair.to_server, 1}, data);
  EXPECT_EQ(finish(*pair.server, next).status, Errc::kOk);
  EXPECT_EQ(first_difference({room.data(), 50}, 1, 0), std::nullopt);
  EXPECT_EQ(room[50], std::byte{3});
  finish(*pair.client, out);
  EXPECT_EQ((*pair.client)->peer_info(pair.to_server).connection, connection);
}

TEST_P(Bmi, CancelOfCompleteOrUnknownOperationsHasNoEffect) {
  const Pair pair = start_pair();
  const Bytes data = pattern(1, 0, 100);
  Bytes room(100);
  const OpId in = recv(*pair.server, {pair.to_client, 1}, room);
  const OpId out = send(*pair.client, {pair.to_server, 1}, data);
  EXPECT_EQ(finish(*pair.server, in).status, Errc::kOk);
  EXPECT_EQ(finish(*pair.client, out).status, Errc::kOk);
  (*pair.server)->cancel(in);
  (*pair.client)->cancel(out);
  (*pair.client)->cancel(OpId{0});
  (*pair.client)->cancel(OpId{0x123456789ABCDEFULL});
  settle();  // the harness fails the test at a second completion
  expect_passes(pair, 2, 100);
}

TEST_P(Bmi, CancelOfAnOperationThatIsDoneButNotTestedKeepsItsOutcome) {
  const Pair pair = start_pair();
  const Bytes data = pattern(1, 0, 100);
  Bytes room(100);
  const OpId in = recv(*pair.server, {pair.to_client, 1}, room);
  const OpId out = send(*pair.client, {pair.to_server, 1}, data);
  pair.server->tested = false;
  settle();
  std::array<Completion, 1> nothing;
  (*pair.server)->test_context(pair.server->context, {nothing.data(), 0});  // makes progress without taking anything
  (*pair.server)->cancel(in);
  pair.server->tested = true;
  EXPECT_EQ(finish(*pair.server, in).status, Errc::kOk);
  EXPECT_EQ(first_difference(room, 1, 0), std::nullopt);
  finish(*pair.client, out);
}

TEST_P(Bmi, CancelOfASendThatWaitsForItsReceive) {
  const Pair pair = start_pair();
  const Bytes data = pattern(1, 0, 2'000'000);
  const OpId out = send(*pair.client, {pair.to_server, 1, MessageClass::kBulk}, data);
  settle();
  ASSERT_FALSE(is_done(*pair.client, out));
  (*pair.client)->cancel(out);
  EXPECT_EQ(finish(*pair.client, out).status, Errc::kCancelled);
  settle();
  // The message was never sent, so the next receive takes the next message.
  expect_passes(pair, 1, 1'000'000, true, MessageClass::kBulk);
}

// When the cancel comes, the receive may have been promised the message. It must get the next one, or learn of the
// loss.
TEST_P(Bmi, CancelOfASendAgainstAReceiveOnItsWay) {
  for (int steps = 0; steps < 12; ++steps) {
    SCOPED_TRACE(steps);
    const Pair pair = start_pair();
    const Bytes data = pattern(1, 0, 2'000'000);
    Bytes room(data.size());
    const OpId out = send(*pair.client, {pair.to_server, 1, MessageClass::kBulk}, data);
    const OpId in = recv(*pair.server, {pair.to_client, 1, MessageClass::kBulk}, room);
    for (int i = 0; i < steps; ++i) {
      step();
      if (world_->traits().virtual_time) world_->wait({});
    }
    (*pair.client)->cancel(out);
    const Completion sent = finish(*pair.client, out);
    EXPECT_THAT(sent.status, is_an_end());
    const Bytes second = pattern(1, 1, 900'000);
    const OpId again = send(*pair.client, {pair.to_server, 1, MessageClass::kBulk}, second);
    settle();
    if (!is_done(*pair.server, in)) {
      ADD_FAILURE() << "the receive heard neither of a message nor of a loss";
      continue;
    }
    const Completion received = pair.server->done.at(in);
    if (received.status == Errc::kOk && received.actual_size == data.size()) {
      EXPECT_EQ(first_difference(room, 1, 0), std::nullopt);
    } else if (received.status == Errc::kOk) {
      EXPECT_EQ(sent.status, Errc::kCancelled);
      EXPECT_EQ(received.actual_size, second.size());
      EXPECT_EQ(first_difference({room.data(), second.size()}, 1, 1), std::nullopt);
    } else {
      EXPECT_THAT(received.status, ::testing::AnyOf(Errc::kConnectionLost, Errc::kCancelled));
    }
    // The second message may have found a receive or not. It ends when it is cancelled.
    (*pair.client)->cancel(again);
    EXPECT_THAT(finish(*pair.client, again).status, is_an_end());
    kill(*pair.client);
    kill(*pair.server);
  }
}

// The receiver gives up at any moment of a transfer. Once the receive has completed, its memory is the caller's.
TEST_P(Bmi, CancelOfAReceiveThatIsBeingFilled) {
  const Bytes data = pattern(1, 0, 8'000'000);
  const Bytes others(data.size(), std::byte{0x42});
  for (int steps = 0; steps < 40; steps = later(steps, *world_)) {
    SCOPED_TRACE(steps);
    const Pair pair = start_pair();
    Bytes room(data.size());
    const OpId in = recv(*pair.server, {pair.to_client, 1, MessageClass::kBulk}, room);
    const OpId out = send(*pair.client, {pair.to_server, 1, MessageClass::kBulk}, data);
    for (int i = 0; i < steps; ++i) {
      step();
      if (world_->traits().virtual_time) world_->wait({});
    }
    (*pair.server)->cancel(in);
    const Completion c = finish(*pair.server, in);
    EXPECT_THAT(c.status, is_an_end());
    std::memcpy(room.data(), others.data(), room.size());
    EXPECT_TRUE(drive([&] { return is_done(*pair.client, out) || c.status != Errc::kOk; }));
    settle();
    EXPECT_EQ(std::memcmp(room.data(), others.data(), room.size()), 0) << "written after its completion";
    // A sender whose message nobody takes may wait for ever, but not after a cancel.
    (*pair.client)->cancel(out);
    EXPECT_THAT(finish(*pair.client, out).status, is_an_end());
    kill(*pair.client);
    kill(*pair.server);
  }
}

// After its completion nobody reads the sender's memory any more. A message that arrives with kOk holds the bytes from
// before.
TEST_P(Bmi, CancelOfASendThatIsMoving) {
  const Bytes was = pattern(1, 0, 8'000'000);
  for (int steps = 0; steps < 40; steps = later(steps, *world_)) {
    SCOPED_TRACE(steps);
    const Pair pair = start_pair();
    Bytes data = was;
    Bytes room(data.size());
    const OpId in = recv(*pair.server, {pair.to_client, 1, MessageClass::kBulk}, room);
    const OpId out = send(*pair.client, {pair.to_server, 1, MessageClass::kBulk}, data);
    for (int i = 0; i < steps; ++i) {
      step();
      if (world_->traits().virtual_time) world_->wait({});
    }
    (*pair.client)->cancel(out);
    EXPECT_THAT(finish(*pair.client, out).status, is_an_end());
    std::memset(data.data(), 0x42, data.size());
    settle();
    if (is_done(*pair.server, in) && pair.server->done.at(in).status == Errc::kOk) {
      EXPECT_EQ(std::memcmp(room.data(), was.data(), was.size()), 0) << "read after its completion";
    }
    (*pair.server)->cancel(in);
    EXPECT_THAT(finish(*pair.server, in).status, is_an_end());
    kill(*pair.client);
    kill(*pair.server);
  }
}

TEST_P(Bmi, CancelOfSendsThatWaitForRoom) {
  NetworkOptions options;
  options.buffered_per_peer_bytes = 64 * 1024;
  options.max_unexpected_bytes = 32 * 1024;
  const Pair pair = start_pair(options);
  const std::size_t count = static_cast<std::size_t>(4 * (64 * 1024 + world_->traits().transit_bytes) / 8192);
  pair.server->takes_unexpected = false;
  const Bytes data = pattern(1, 0, 8192);
  std::vector<OpId> ops;
  for (std::size_t i = 0; i < count; ++i) ops.push_back(send_unexpected(*pair.client, {pair.to_server, i}, data));
  settle();
  for (const OpId op : ops) (*pair.client)->cancel(op);
  std::size_t cancelled = 0;
  std::size_t sent = 0;
  for (const OpId op : ops) {
    const Errc status = finish(*pair.client, op).status;
    cancelled += status == Errc::kCancelled ? 1U : 0U;
    sent += status == Errc::kOk ? 1U : 0U;
  }
  EXPECT_GT(cancelled, count / 2);
  EXPECT_EQ(cancelled + sent, count);
  pair.server->takes_unexpected = true;
  settle();
  EXPECT_LE(pair.server->arrived.size(), count - cancelled + 1) << "a cancelled message arrived";
  expect_passes(pair, 1, 1000);
}

TEST_P(Bmi, CancelWhileThePeerDoesNotAnswer) {
  Process& client = start(false);
  const Address nobody = lookup(client, world_->dead_url());
  const Bytes data = pattern(1, 0, 100);
  Bytes room(100);
  const OpId out = send(client, {nobody, 1}, data);
  const OpId in = recv(client, {nobody, 1}, room);
  client->cancel(out);
  client->cancel(in);
  for (const OpId op : {out, in}) {
    const Errc status = finish(client, op).status;
    EXPECT_THAT(status, ::testing::AnyOf(Errc::kCancelled, Errc::kUnreachable));
  }
}

TEST_P(Bmi, CancelOfAnUnexpectedMessage) {
  const Pair pair = start_pair();
  const Bytes data = pattern(1, 0, 100);
  const OpId op = send_unexpected(*pair.client, {pair.to_server, 9}, data);
  (*pair.client)->cancel(op);
  const Errc status = finish(*pair.client, op).status;
  settle();
  if (status == Errc::kOk) EXPECT_EQ(pair.server->arrived.size(), 1U);
  EXPECT_THAT(status, is_an_end());
  expect_passes(pair, 1, 1000);
}

}  // namespace
}  // namespace spate::bmi::conformance
