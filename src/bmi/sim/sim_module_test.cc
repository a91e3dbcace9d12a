// SPDX-License-Identifier: Apache-2.0
// The module without the core: what it reports, and when.
#include "bmi/sim/sim_module.h"

#include <gmock/gmock.h>

#include <array>

#include "base/expect.h"
#include "bmi/sim/fabric.h"

namespace spate::bmi::sim {
namespace {

class Recorder final : public Sink {
 public:
  void completed(std::span<const Outcome> outcomes) override {
    done.insert(done.end(), outcomes.begin(), outcomes.end());
  }
  Address inbound(PeerId peer, ContextId) override {
    last_inbound = peer;
    return Address{peer.value + 1000};
  }
  void unexpected(PeerId, Address address, Tag tag, Buffer, std::uint64_t charge) override {
    tags.push_back(tag);
    charges.push_back(charge);
    EXPECT_EQ(address, Address{last_inbound.value + 1000});
  }
  void forgotten(PeerId, Address) override {}

  std::vector<Outcome> done;
  std::vector<Tag> tags;
  std::vector<std::uint64_t> charges;
  PeerId last_inbound;
};

struct Pair {
  explicit Pair(const FabricOptions& options) : fabric(clock, random, options) {
    EXPECT_OK(server->start(at_server, limits));
    EXPECT_OK(client->start(at_client, limits));
    EXPECT_OK(server->listen("sim://1", ContextId{1}));
    peer = *client->lookup("sim://1", Address{1});
  }
  Result<PostResult> post(Module& module, bool receive, PeerId to, std::uint64_t op, MutableByteView bytes) {
    const std::array<Segment, 1> segments{Segment::of(bytes)};
    const Post post{OpId{op}, to, Tag{7}, MessageClass::kControl, false, segments, bytes.size()};
    return receive ? module.post_recv(post) : module.post_send(post);
  }
  void run() {
    while (fabric.deliver_next()) {
    }
  }
  ManualClock clock;
  SeededRandom random{1};
  Fabric fabric;
  NetworkOptions limits;
  Recorder at_client;
  Recorder at_server;
  std::unique_ptr<Module> client = attach(fabric, 2);
  std::unique_ptr<Module> server = attach(fabric, 1);
  PeerId peer;
  Bytes data = Bytes(100);
};

// Otherwise a driver that only watches the events would sleep although a completion is there.
TEST(SimModule, AnOperationThatAPostCompletesIsReportedByAnEvent) {
  FabricOptions options;
  options.immediate_per_mille = 0;
  Pair pair(options);
  ASSERT_OK(pair.post(*pair.client, false, pair.peer, 1, pair.data));
  pair.run();
  const Result<PostResult> late = pair.post(*pair.server, true, pair.at_server.last_inbound, 2, pair.data);
  ASSERT_OK(late);
  EXPECT_FALSE(late->done) << "no operation ends at once with these options";
  EXPECT_FALSE(pair.server->prepare_to_wait()) << "the end of the operation is an event that is still to come";
  pair.run();
  ASSERT_EQ(pair.at_server.done.size(), 1U);
  EXPECT_EQ(pair.at_server.done[0].op, OpId{2});
  EXPECT_EQ(pair.at_server.done[0].actual_size, 100U);
  EXPECT_TRUE(pair.server->prepare_to_wait()) << "nothing is left to test";
}

TEST(SimModule, ImmediateCompletionDependsOnTheOptions) {
  FabricOptions options;
  options.immediate_per_mille = 1000;
  Pair pair(options);
  ASSERT_OK(pair.post(*pair.client, false, pair.peer, 1, pair.data));  // not connected yet
  pair.run();
  EXPECT_EQ(pair.at_client.done.size(), 1U);
  const Result<PostResult> sent = pair.post(*pair.client, false, pair.peer, 2, pair.data);
  ASSERT_OK(sent);
  EXPECT_TRUE(sent->done) << "every operation ends at once with these options";
  EXPECT_EQ(sent->actual_size, 100U);
  const Result<PostResult> received = pair.post(*pair.server, true, pair.at_server.last_inbound, 3, pair.data);
  ASSERT_OK(received);
  EXPECT_TRUE(received->done) << "every operation ends at once with these options";
  pair.run();
  EXPECT_EQ(pair.at_client.done.size(), 1U);
  EXPECT_THAT(pair.at_server.done, testing::IsEmpty());
}

TEST(SimModule, AnInboundPeerThatIsGoneRefusesPosts) {
  Pair pair(FabricOptions{});
  ASSERT_OK(pair.post(*pair.client, false, pair.peer, 1, pair.data));
  pair.run();
  pair.client.reset();
  pair.run();
  EXPECT_ERRC(pair.post(*pair.server, true, pair.at_server.last_inbound, 2, pair.data), Errc::kConnectionLost);
  EXPECT_ERRC(pair.post(*pair.server, false, pair.at_server.last_inbound, 3, pair.data), Errc::kConnectionLost);
}

}  // namespace
}  // namespace spate::bmi::sim
