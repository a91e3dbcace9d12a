// SPDX-License-Identifier: Apache-2.0
// The fault decorator around the simulated module: each action at each point does what the README says.
#include "bmi/fault/fault_module.h"

#include <array>
#include <deque>
#include <functional>
#include <map>

#include "base/expect.h"
#include "base/random.h"
#include "bmi/sim/fabric.h"

namespace spate::bmi::fault {
namespace {

struct Side {
  std::unique_ptr<Network> network;
  ContextId context;
  Address other;
  std::map<OpId, Completion> done;
  std::deque<UnexpectedMessage> arrived;
};

// A client whose module follows the plan, and a server without faults.
class FaultModuleTest : public testing::Test {
 protected:
  FaultModuleTest() {
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(std::make_unique<FaultModule>(bmi::sim::attach(fabric, 1), plan));
    client.network = make_network(std::move(modules));
    client.context = client.network->open_context();
    std::vector<std::unique_ptr<Module>> honest;
    honest.push_back(bmi::sim::attach(fabric, 2));
    server.network = make_network(std::move(honest));
    server.context = server.network->open_context();
    EXPECT_OK(server.network->listen("sim://2", server.context));
    const std::array<std::string, 1> urls{"sim://2"};
    client.other = *client.network->lookup(urls);
    meet();
  }

  void meet() {
    finish(client, request(client, 1, Bytes(1)));
    EXPECT_TRUE(drive([&] { return !server.arrived.empty(); })) << "nothing has arrived";
    server.other = server.arrived.front().peer;
    server.arrived.clear();
  }
  OpId posted(Side& side, const Result<Posted>& result) {
    EXPECT_OK(result);
    if (!result) return {};
    if (result->done) side.done.emplace(result->op, result->completion);
    return result->op;
  }
  OpId request(Side& side, std::uint64_t tag, ByteView bytes) {
    const std::array<Segment, 1> segments{Segment::of(bytes)};
    return posted(side, side.network->post_send_unexpected({side.other, Tag{tag}, MessageClass::kControl, segments},
                                                           side.context, nullptr));
  }
  OpId send(Side& side, std::uint64_t tag, ByteView bytes) {
    const std::array<Segment, 1> segments{Segment::of(bytes)};
    return posted(
        side, side.network->post_send({side.other, Tag{tag}, MessageClass::kControl, segments}, side.context, nullptr));
  }
  OpId recv(Side& side, std::uint64_t tag, MutableByteView into) {
    const std::array<Segment, 1> segments{Segment::of(into)};
    return posted(
        side, side.network->post_recv({side.other, Tag{tag}, MessageClass::kControl, segments}, side.context, nullptr));
  }
  void test(Side& side) {
    std::array<Completion, 8> completions;
    std::array<UnexpectedMessage, 8> messages;
    const std::size_t n = side.network->test_context(side.context, completions);
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_TRUE(side.done.emplace(completions[i].op, completions[i]).second) << "completed twice";
    const std::size_t m = side.network->test_unexpected(side.context, messages);
    for (std::size_t i = 0; i < m; ++i) side.arrived.push_back(std::move(messages[i]));
  }
  bool drive(const std::function<bool()>& until) {
    for (int idle = 0; idle < 1000;) {
      test(client);
      test(server);
      if (until()) return true;
      idle = fabric.deliver_next() ? 0 : idle + 1;
    }
    return false;
  }
  Completion finish(Side& side, OpId op) {
    EXPECT_TRUE(drive([&] { return side.done.contains(op); })) << "operation " << op.value << " never completes";
    return side.done.contains(op) ? side.done.at(op) : Completion{};
  }
  void settle() {
    drive([] { return false; });
  }
  Fault next(Point point, Action action) const {
    return {.point = point, .nth = plan->passed(point) + 1, .action = action};
  }

  ManualClock clock;
  SeededRandom random{7};
  sim::Fabric fabric{clock, random};
  std::shared_ptr<Plan> plan = std::make_shared<Plan>();
  Side client;
  Side server;
  Bytes data = Bytes(100, std::byte{5});
  Bytes room = Bytes(100);
};

TEST_F(FaultModuleTest, AFailedPostPostsNothing) {
  Fault fault = next(Point::kPostSend, Action::kFail);
  fault.status = Errc::kNoMemory;
  plan->add(fault);
  const std::array<Segment, 1> segments{Segment::of(ByteView(data))};
  const OpId in = recv(server, 3, room);
  EXPECT_ERRC(
      client.network->post_send({client.other, Tag{3}, MessageClass::kControl, segments}, client.context, nullptr),
      Errc::kNoMemory);
  settle();
  EXPECT_FALSE(server.done.contains(in));
  EXPECT_EQ(plan->fired(), 1U);
  send(client, 3, data);
  EXPECT_EQ(finish(server, in).status, Errc::kOk);
}

TEST_F(FaultModuleTest, APostMayDropTheConnection) {
  plan->add(next(Point::kPostReceive, Action::kDropConnection));
  EXPECT_EQ(finish(client, recv(client, 3, room)).status, Errc::kConnectionLost);
  settle();
  EXPECT_FALSE(server.network->peer_info(server.other).connected);
  meet();
}

TEST_F(FaultModuleTest, AFailedCompletionTakesTheConnectionWithIt) {
  for (int round = 0; round < 8; ++round) {  // some operations complete at their post, others later
    plan->clear();
    plan->add(next(Point::kCompletion, Action::kFail));
    const std::uint32_t before = server.network->peer_info(server.other).connection;
    EXPECT_EQ(finish(client, send(client, 3, data)).status, Errc::kConnectionLost);
    settle();
    meet();
    EXPECT_EQ(server.network->peer_info(server.other).connection, before + 1);
  }
}

TEST_F(FaultModuleTest, ACompletionMayFailOtherwise) {
  Fault fault = next(Point::kCompletion, Action::kFail);
  fault.status = Errc::kIoError;
  plan->add(fault);
  EXPECT_EQ(finish(client, send(client, 3, data)).status, Errc::kIoError);
  EXPECT_TRUE(client.network->peer_info(client.other).connected);
}

TEST_F(FaultModuleTest, DelayedCompletionsComeAfterTheirTurns) {
  Fault fault = next(Point::kCompletion, Action::kDelay);
  fault.turns = 50;
  plan->add(fault);
  const OpId out = send(client, 3, data);
  for (int i = 0; i < 10; ++i) {
    while (fabric.deliver_next()) {
    }
    test(client);
  }
  EXPECT_FALSE(client.done.contains(out));
  EXPECT_FALSE(client.network->prepare_to_wait(client.context));
  EXPECT_EQ(finish(client, out).status, Errc::kOk);
}

TEST_F(FaultModuleTest, TruncatedAndCorruptReceives) {
  Fault fault = next(Point::kCompletion, Action::kTruncate);
  fault.keep = 7;
  plan->add(fault);
  const OpId first = recv(client, 3, room);
  send(server, 3, data);
  EXPECT_EQ(finish(client, first).actual_size, 7U);
  plan->add(next(Point::kCompletion, Action::kCorrupt));
  const OpId second = recv(client, 3, room);
  send(server, 3, data);
  EXPECT_EQ(finish(client, second).actual_size, 100U);
  EXPECT_NE(room[0], data[0]);
  EXPECT_EQ(room[1], data[1]);
}

TEST_F(FaultModuleTest, UnexpectedMessagesOfAnInstrumentedServer) {
  std::vector<std::unique_ptr<Module>> modules;
  auto at_server = std::make_shared<Plan>();
  modules.push_back(std::make_unique<FaultModule>(bmi::sim::attach(fabric, 3), at_server));
  Side third;
  third.network = make_network(std::move(modules));
  third.context = third.network->open_context();
  ASSERT_OK(third.network->listen("sim://3", third.context));
  const std::array<std::string, 1> urls{"sim://3"};
  client.other = *client.network->lookup(urls);
  const auto arrivals = [&](std::size_t n) {
    return drive([&] {
      test(third);
      return third.arrived.size() >= n;
    });
  };
  at_server->add({.point = Point::kUnexpected, .nth = 1, .action = Action::kTruncate, .keep = 3});
  at_server->add({.point = Point::kUnexpected, .nth = 2, .action = Action::kCorrupt});
  at_server->add({.point = Point::kUnexpected, .nth = 3, .action = Action::kDelay, .turns = 20});
  at_server->add({.point = Point::kUnexpected, .nth = 6, .action = Action::kFail});
  for (std::uint64_t tag = 1; tag <= 5; ++tag) request(client, tag, data);
  ASSERT_TRUE(arrivals(5));
  for (std::uint64_t i = 0; i < 5; ++i)
    EXPECT_EQ(third.arrived[i].tag, Tag{i + 1}) << "a delayed one holds back its followers";
  EXPECT_EQ(third.arrived[0].payload.size(), 3U);
  EXPECT_NE(third.arrived[1].payload.data()[0], data[0]);
  EXPECT_EQ(third.arrived[2].payload.data()[0], data[0]);

  request(client, 6, data);  // lost with its connection
  settle();
  test(third);
  EXPECT_EQ(third.arrived.size(), 5U);
  EXPECT_FALSE(client.network->peer_info(client.other).connected);
  request(client, 7, data);
  ASSERT_TRUE(arrivals(6));
  EXPECT_EQ(third.arrived[5].tag, Tag{7});
  EXPECT_EQ(at_server->fired(), 4U);
}

TEST_F(FaultModuleTest, LookupAndListenFail) {
  Fault fault = next(Point::kLookup, Action::kFail);
  fault.status = Errc::kBadAddress;
  plan->add(fault);
  const std::array<std::string, 1> urls{"sim://9"};
  EXPECT_ERRC(client.network->lookup(urls), Errc::kBadAddress);
  fault = next(Point::kListen, Action::kFail);
  fault.status = Errc::kPermissionDenied;
  plan->add(fault);
  EXPECT_ERRC(client.network->listen("sim://1", client.context), Errc::kPermissionDenied);
  EXPECT_OK(client.network->listen("sim://1", client.context));
}

// The intended use: a small exchange is repeated with a fault at each completion in turn, until no fault is hit any
// more.
TEST_F(FaultModuleTest, ASweepEndsWhenNothingIsHit) {
  std::uint64_t n = 0;
  for (bool hit = true; hit;) {
    ASSERT_LT(++n, 100U);
    plan->clear();
    const std::uint64_t before = plan->fired();
    plan->add({.point = Point::kCompletion, .nth = plan->passed(Point::kCompletion) + n});
    bool lost = false;
    for (std::uint64_t i = 0; i < 5 && !lost; ++i) {
      const OpId in = recv(client, i, room);
      send(server, i, data);
      lost = finish(client, in).status != Errc::kOk;
    }
    hit = plan->fired() > before;
    EXPECT_EQ(lost, hit) << n;
    settle();
    plan->clear();
    meet();
  }
  EXPECT_EQ(n, 6U);
}

}  // namespace
}  // namespace spate::bmi::fault
