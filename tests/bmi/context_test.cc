// SPDX-License-Identifier: Apache-2.0
// Contexts and testing: which completion is seen where, how often, and at what cost.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>
#include <set>

#include "base/expect.h"
#include "base/unique_fd.h"
#include "tests/bmi/harness.h"

namespace spate::bmi::conformance {
namespace {

TEST_P(Bmi, UserPointersComeBack) {
  const Pair pair = start_pair();
  int mine = 0;
  int other = 0;
  const Bytes data = pattern(1, 0, 100);
  Bytes room(100);
  const OpId in = recv(*pair.server, {.peer = pair.to_client, .tag = 1, .user = &mine}, room);
  const OpId out = send(*pair.client, {.peer = pair.to_server, .tag = 1, .user = &other}, data);
  const OpId unexpected = send_unexpected(*pair.client, {.peer = pair.to_server, .tag = 1, .user = &mine}, data);
  EXPECT_EQ(finish(*pair.server, in).user, &mine);
  EXPECT_EQ(finish(*pair.client, out).user, &other);
  EXPECT_EQ(finish(*pair.client, unexpected).user, &mine);
}

// An operation completes once, at its post or later. The harness fails the test at a second completion.
TEST_P(Bmi, EveryOperationCompletesExactlyOnce) {
  const Pair pair = start_pair();
  constexpr std::size_t kCount = 500;
  const Bytes data = pattern(1, 0, 64);
  std::vector<Bytes> rooms(kCount, Bytes(64));
  const std::uint64_t sent_before = pair.client->completed;
  const std::uint64_t received_before = pair.server->completed;
  std::set<OpId> ids;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (i % 2 == 0)
      EXPECT_TRUE(ids.insert(recv(*pair.server, {pair.to_client, i}, rooms[i])).second)
          << "the id of an operation in flight";
    send(*pair.client, {pair.to_server, i}, data);
    if (i % 7 == 0) step();
    if (i % 2 == 1)
      EXPECT_TRUE(ids.insert(recv(*pair.server, {pair.to_client, i}, rooms[i])).second)
          << "the id of an operation in flight";
  }
  ASSERT_TRUE(drive([&] { return pair.server->completed == received_before + kCount; }))
      << pair.server->completed - received_before << " have completed";
  settle();
  EXPECT_EQ(pair.client->completed, sent_before + kCount);
  EXPECT_EQ(pair.server->completed, received_before + kCount);
}

TEST_P(Bmi, ContextsNeverSeeOneAnothersCompletions) {
  const Pair pair = start_pair();
  const ContextId second = (*pair.server)->open_context();
  const Bytes data = pattern(1, 0, 2000);
  Bytes first_room(2000);
  Bytes second_room(2000);
  const std::array<Segment, 1> segments{Segment::of(MutableByteView(second_room))};
  const Result<Posted> in_second =
      (*pair.server)->post_recv({pair.to_client, Tag{2}, MessageClass::kControl, segments}, second, nullptr);
  ASSERT_OK(in_second);
  const OpId in_first = recv(*pair.server, {pair.to_client, 1}, first_room);
  const OpId out_second = send(*pair.client, {pair.to_server, 2}, data);
  finish(*pair.client, out_second);
  settle();
  EXPECT_FALSE(is_done(*pair.server, in_second->op));
  EXPECT_EQ((*pair.server)->test(pair.server->context, in_second->op), std::nullopt)
      << "asked for in the wrong context";

  const OpId out_first = send(*pair.client, {pair.to_server, 1}, data);
  finish(*pair.server, in_first);
  std::array<Completion, 8> completions;
  ASSERT_EQ((*pair.server)->test_context(second, completions), 1U);
  EXPECT_EQ(completions[0].op, in_second->op);
  EXPECT_EQ((*pair.server)->test_context(second, completions), 0U);
  finish(*pair.client, out_first);
  (*pair.server)->close_context(second);
}

TEST_P(Bmi, TestingOneOperationLeavesTheOthersQueued) {
  const Pair pair = start_pair();
  pair.server->tested = false;
  std::array<Bytes, 4> rooms;
  std::array<OpId, 4> ops;
  const Bytes data = pattern(1, 0, 100);
  // No message has been sent yet, so that no receive is done at its post.
  for (std::size_t i = 0; i < ops.size(); ++i) {
    rooms[i].resize(100);
    ops[i] = recv(*pair.server, {pair.to_client, i + 1}, rooms[i]);
  }
  for (std::size_t i = 0; i + 1 < ops.size(); ++i) send(*pair.client, {pair.to_server, i + 1}, data);

  Network& server = *pair.server->network;
  const ContextId context = pair.server->context;
  std::optional<Completion> second;
  ASSERT_TRUE(drive([&] { return (second = server.test(context, ops[1])).has_value(); }));
  EXPECT_EQ(second->op, ops[1]);
  EXPECT_EQ(second->actual_size, 100U);
  EXPECT_EQ(server.test(context, ops[1]), std::nullopt) << "reported twice";

  std::array<Completion, 8> out;
  std::size_t n = 0;
  const std::array<OpId, 2> wanted{ops[3], ops[2]};
  ASSERT_TRUE(drive([&] { return (n = server.test_some(context, wanted, out)) > 0; }));
  ASSERT_EQ(n, 1U);
  EXPECT_EQ(out[0].op, ops[2]);

  ASSERT_TRUE(drive([&] { return (n = server.test_context(context, out)) > 0; }));
  ASSERT_EQ(n, 1U);
  EXPECT_EQ(out[0].op, ops[0]);
}

TEST_P(Bmi, TestContextYieldsNoMoreThanThereIsRoomFor) {
  const Pair pair = start_pair();
  pair.server->tested = false;
  std::array<Bytes, 5> rooms;
  const Bytes data = pattern(1, 0, 10);
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    rooms[i].resize(10);
    recv(*pair.server, {pair.to_client, i}, rooms[i]);
  }
  for (std::size_t i = 0; i < rooms.size(); ++i) send(*pair.client, {pair.to_server, i}, data);
  std::array<Completion, 2> out;
  std::size_t seen = 0;
  ASSERT_TRUE(drive([&] {
    const std::size_t n = (*pair.server)->test_context(pair.server->context, out);
    EXPECT_LE(n, out.size());
    return (seen += n) == rooms.size();
  }));
}

// The cost of a test depends on the number of completions, not on the number of posted operations. A test that looked
// at each of 100,000 receives would exceed the suite's timeout. The same holds for the cancels at the end.
TEST_P(Bmi, OneCompletionAmongAHundredThousandReceives) {
  const Pair pair = start_pair();
  constexpr std::uint64_t kCount = 100'000;
  std::vector<OpId> ops;
  Bytes rooms(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    ops.push_back(recv(*pair.server, {pair.to_client, i}, {rooms.data() + i, 1}));
  }
  const std::uint64_t before = pair.server->completed;
  int tests = 0;
  const auto tested_enough = [&] {
    std::array<Completion, 1> none;
    for (int i = 0; i < 10'000; ++i) EXPECT_EQ((*pair.server)->test_context(pair.server->context, none), 0U);
    return (tests += 10'000) == 300'000;
  };
  if (world_->traits().virtual_time) {  // in virtual time nothing happens by itself
    while (!tested_enough()) {
    }
  } else {
    EXPECT_TRUE(drive(tested_enough));
  }
  EXPECT_EQ(pair.server->completed, before);
  const Bytes one(1, std::byte{7});
  const OpId out = send(*pair.client, {pair.to_server, kCount / 2}, one);
  EXPECT_EQ(finish(*pair.server, ops[kCount / 2]).actual_size, 1U);
  EXPECT_EQ(pair.server->completed, before + 1);
  finish(*pair.client, out);
  for (const OpId op : ops) (*pair.server)->cancel(op);
  ASSERT_TRUE(drive([&] { return pair.server->completed == before + kCount; }))
      << pair.server->completed - before << " have completed";
  EXPECT_EQ(pair.server->done.at(ops[0]).status, Errc::kCancelled);
}

TEST_P(Bmi, AContextCanBeClosedWhenItsWorkIsDone) {
  const Pair pair = start_pair();
  const ContextId extra = (*pair.client)->open_context();
  EXPECT_NE(extra, pair.client->context);
  (*pair.client)->close_context(extra);
  const ContextId another = (*pair.client)->open_context();
  EXPECT_NE(another, extra) << "a number used again would mix up completions";
  (*pair.client)->close_context(another);
  expect_passes(pair, 1, 1000);
}

TEST_P(Bmi, PrepareToWaitRefusesWhileACompletionWaits) {
  const Pair pair = start_pair();
  Network& server = *pair.server->network;
  const ContextId context = pair.server->context;
  const Bytes data = pattern(1, 0, 10);
  pair.server->takes_unexpected = false;
  send_unexpected(*pair.client, {pair.to_server, 5}, data);
  ASSERT_TRUE(drive([&] { return !server.prepare_to_wait(context); }));
  std::array<UnexpectedMessage, 1> message;
  ASSERT_TRUE(drive([&] { return server.test_unexpected(context, message) == 1; }));
  settle();
  EXPECT_TRUE(server.prepare_to_wait(context)) << "nothing is left: it would never sleep";
}

/// A thread that sleeps on the descriptor, or in wait(), is woken by each kind of event: a connection with an
/// unexpected message, a message for a posted receive, and an operation that another thread completed (here by a
/// cancel).
class BmiWakes : public Bmi {
 protected:
  // Sleeps for a while at most. True: it was woken, as far as it can tell.
  using Sleep = std::function<bool(Network&, ContextId)>;

  void expect_wakes(const Sleep& sleep) {
    const Pair pair = start_pair();
    settle();
    Network& server = *pair.server->network;
    pair.server->tested = false;
    const auto sleeps_until_event = [&] {
      for (int i = 0; i < 1000; ++i) {
        step();  // the client continues
        if (sleep(server, pair.server->context)) return;
      }
      FAIL() << "asleep for ever";
    };
    const auto wakes_up = [&] {
      pair.server->tested = true;
      settle();
      pair.server->tested = false;
    };
    const Bytes data = pattern(1, 0, 100'000);
    Bytes room(100'000);
    send_unexpected(*pair.client, {pair.to_server, 1}, {data.data(), 10});
    sleeps_until_event();
    wakes_up();
    EXPECT_EQ(pair.server->arrived.size(), 1U);

    const OpId in = recv(*pair.server, {pair.to_client, 2}, room);
    wakes_up();
    send(*pair.client, {pair.to_server, 2}, data);
    sleeps_until_event();
    pair.server->tested = true;
    EXPECT_EQ(finish(*pair.server, in).status, Errc::kOk);
    wakes_up();

    const OpId cancelled = recv(*pair.server, {pair.to_client, 3}, room);
    server.cancel(cancelled);
    sleeps_until_event();
    pair.server->tested = true;
    EXPECT_EQ(finish(*pair.server, cancelled).status, Errc::kCancelled);
  }

  static bool readable(int descriptor, int timeout_ms = 0) {
    pollfd fd{descriptor, POLLIN, 0};
    return ::poll(&fd, 1, timeout_ms) > 0;
  }
};

TEST_P(BmiWakes, ByTheDescriptor) {
  if (world_->traits().virtual_time) {
    Process& peer = start(true);
    EXPECT_EQ(peer->wait_descriptor(peer.context), -1);
    return;
  }
  expect_wakes([](Network& network, ContextId context) {
    return !network.prepare_to_wait(context) || readable(network.wait_descriptor(context), 20);
  });
}

TEST_P(BmiWakes, ByWait) {
  if (world_->traits().virtual_time) {
    Process& peer = start(true);
    EXPECT_FALSE(peer->wait(peer.context, Duration(0)));
    EXPECT_FALSE(peer->wake_by(peer.context, 0));
    return;
  }
  // The caller cannot see how the call ended. A wait without limit that returns was woken.
  expect_wakes([](Network& network, ContextId context) { return network.wait(context, Duration(-1)); });
}

TEST_P(BmiWakes, ByAForeignDescriptorToo) {
  if (world_->traits().virtual_time) return;
  Process& peer = start(true);
  settle();
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  ASSERT_TRUE(peer->wake_by(peer.context, out.get()));
  ASSERT_EQ(::write(in.get(), "x", 1), 1);
  EXPECT_TRUE(peer->wait(peer.context, Duration(-1))) << "otherwise it would sleep for ever";
  settle();
  EXPECT_TRUE(peer->wait(peer.context, Duration(-1))) << "as long as it is readable";
  settle();
  peer->stop_wake_by(peer.context, out.get());
  ASSERT_TRUE(peer->prepare_to_wait(peer.context));
  EXPECT_FALSE(readable(peer->wait_descriptor(peer.context)));
}

// A thread sleeps in one context. Another thread tests a second context and then does something else.
TEST_P(BmiWakes, AfterAnotherContextWasTested) {
  if (world_->traits().virtual_time) return;
  const Pair pair = start_pair();
  Network& server = *pair.server->network;
  const ContextId sleeper = pair.server->context;
  const ContextId other = server.open_context();
  for (std::uint64_t round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    std::array<Bytes, 2> rooms{Bytes(10), Bytes(10)};
    const std::array<Segment, 1> segments{Segment::of(MutableByteView(rooms[0]))};
    ASSERT_OK(server.post_recv({pair.to_client, Tag{1}, MessageClass::kControl, segments}, other, nullptr));
    const OpId in = recv(*pair.server, {pair.to_client, 2}, rooms[1]);
    ASSERT_TRUE(drive([&] { return server.prepare_to_wait(sleeper); }));
    pair.server->tested = false;

    const Bytes data = pattern(1, round, 10);
    send(*pair.client, {pair.to_server, 1}, data);
    std::array<Completion, 1> out;
    ASSERT_TRUE(drive([&] { return server.test_context(other, out) == 1; }));
    EXPECT_EQ(out[0].status, Errc::kOk);

    send(*pair.client, {pair.to_server, 2}, data);
    ASSERT_TRUE(drive([&] { return readable(server.wait_descriptor(sleeper)); })) << "asleep for ever";
    pair.server->tested = true;
    EXPECT_EQ(finish(*pair.server, in).status, Errc::kOk);
  }
  server.close_context(other);
}

INSTANTIATE_TEST_SUITE_P(Modules, BmiWakes, testing::ValuesIn(subjects()),
                         [](const testing::TestParamInfo<Subject>& info) { return info.param.name; });

// Messages that posts kept back leave with each of the calls that must send them.
TEST_P(Bmi, HeldMessagesLeave) {
  const Pair pair = start_pair();
  (*pair.client)->hold_sends();
  const Bytes data = pattern(1, 0, 1000);
  const auto arrives = [&] {
    const std::size_t before = pair.server->arrived.size();
    send_unexpected(*pair.client, {pair.to_server, 1}, data);
    send_unexpected(*pair.client, {pair.to_server, 1}, data);
    (*pair.client)->flush_sends();
    pair.client->tested = false;  // only the call above may send the messages
    EXPECT_TRUE(drive([&] { return pair.server->arrived.size() == before + 2; }))
        << pair.server->arrived.size() << " have arrived";
    pair.client->tested = true;
  };
  arrives();
  settle();
  arrives();
  expect_passes(pair, 7, 100'000);
  expect_passes(pair, 8, 100'000, false, MessageClass::kBulk);
}

}  // namespace
}  // namespace spate::bmi::conformance
