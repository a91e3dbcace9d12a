// SPDX-License-Identifier: Apache-2.0
// Priorities at a busy device, who may set them, and how many requests a server works on at once.

#include <gmock/gmock.h>

#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

class PriorityTest : public ::testing::Test {
 protected:
  explicit PriorityTest(WorldOptions options = one_at_a_time()) : world_(std::move(options)) {}
  static WorldOptions one_at_a_time() {
    WorldOptions options;
    options.io.scheduler.running = 1;
    return options;
  }

  /// Requests the datafile's state, and appends `name` to order_ when the answer comes.
  job::Task<void> stat(Client& client, wire::Priority priority, std::string name) {
    wire::DatafileStatRequest request;
    request.handle = kFile;
    request.slots = {{0, World::target(0)}};
    rpc::CallOptions options = client.options_for(nullptr);
    options.priority = priority;
    auto reply = co_await client.channel().call<wire::DatafileStatReply>(request, options);
    order_.push_back(reply ? name : "failed");
  }
  void ask(Client& client, wire::Priority priority, std::string name) {
    world_.spawn(stat(client, priority, std::move(name)));
    world_.pass(std::chrono::milliseconds(1));
  }

  World world_;
  Client client_{world_};
  Client server_{world_, {.kind = wire::PeerKind::kServer}};
  std::vector<std::string> order_;
};

TEST_F(PriorityTest, ControlOfServersGoesFirstAndBackgroundLast) {
  ask(client_, wire::Priority::kNormal, "handshake");
  ask(server_, wire::Priority::kNormal, "handshake");
  order_.clear();
  trove::BytestreamFault slow;
  slow.kind = trove::BytestreamFault::Kind::kDelay;
  slow.delay = std::chrono::seconds(1);
  world_.storage(0).add(slow);
  ask(client_, wire::Priority::kNormal, "on the device");
  ask(server_, wire::Priority::kBackground, "background");
  ask(client_, wire::Priority::kNormal, "client 1");
  ask(client_, wire::Priority::kControl, "client 2, which claims to be urgent");
  ask(server_, wire::Priority::kControl, "control");
  EXPECT_THAT(order_, ::testing::IsEmpty());
  world_.pass(std::chrono::seconds(2));
  EXPECT_EQ(order_, (std::vector<std::string>{"on the device", "control", "client 1",
                                              "client 2, which claims to be urgent", "background"}));
}

class RoomTest : public PriorityTest {
 protected:
  RoomTest() : PriorityTest(four_at_a_time()) {}
  static WorldOptions four_at_a_time() {
    WorldOptions options;
    options.max_requests = 4;
    return options;
  }
};

// Further requests wait for a place.
TEST_F(RoomTest, NoMoreRequestsAreUnderWayThanTheServerTakes) {
  constexpr std::size_t kAsked = 12;
  ask(client_, wire::Priority::kNormal, "handshake");
  order_.clear();
  for (std::size_t i = 0; i < kAsked; ++i) {
    trove::BytestreamFault slow;
    slow.kind = trove::BytestreamFault::Kind::kDelay;
    slow.delay = std::chrono::seconds(1);
    slow.nth = i + 1;
    world_.storage(0).add(slow);
  }
  const std::uint64_t before = world_.storage(0).posted(trove::BytestreamOp::kStat);
  for (std::size_t i = 0; i < kAsked; ++i) ask(client_, wire::Priority::kNormal, "asked");
  EXPECT_EQ(world_.storage(0).posted(trove::BytestreamOp::kStat), before + 4);
  EXPECT_THAT(order_, ::testing::IsEmpty());
  world_.pass(std::chrono::seconds(10));
  EXPECT_EQ(order_, std::vector<std::string>(kAsked, "asked"));
}

}  // namespace
}  // namespace spate::io::testing
