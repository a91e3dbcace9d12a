// SPDX-License-Identifier: Apache-2.0
// Several channels of one process to one server: each has a connection, and a handshake, of its own.
#include "base/expect.h"
#include "job/run_all.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

/// The two channels have the same network, identity and list of URLs.
class ChannelsTest : public ::testing::TestWithParam<wire::PeerKind> {
 protected:
  ChannelsTest() { process_.set_deadline(std::chrono::seconds(5)); }

  static job::Task<Result<void>> ask(rpc::Channel& channel, rpc::CallOptions options) {
    const wire::IoStatfsRequest request;
    const auto reply = co_await channel.call<wire::IoStatfsReply>(request, options);
    co_return reply ? Result<void>() : reply.error();
  }
  Result<void> ask(rpc::Channel& channel) { return world_.run(ask(channel, process_.options_for(nullptr))); }
  Result<void> ask_both() {
    std::vector<job::Task<Result<void>>> tasks;
    tasks.push_back(ask(*first_, process_.options_for(nullptr)));
    tasks.push_back(ask(*second_, process_.options_for(nullptr)));
    return world_.run(job::run_all(world_.executor(), std::move(tasks)));
  }
  void expect_one_connection_each() const {
    EXPECT_EQ(first_->peer_info().connection, 1U);
    EXPECT_EQ(second_->peer_info().connection, 1U);
  }

  World world_;
  Client process_{world_, {.kind = GetParam()}};
  std::unique_ptr<rpc::Channel> first_ = process_.another_channel();
  std::unique_ptr<rpc::Channel> second_ = process_.another_channel();
};

TEST_P(ChannelsTest, ConcurrentHandshakesDoNotInterfere) {
  EXPECT_OK(ask_both());
  expect_one_connection_each();
}

TEST_P(ChannelsTest, AHandshakeEndsNoConnectionOfAnotherChannel) {
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_OK(ask(*first_));
    EXPECT_OK(ask(*second_));
  }
  expect_one_connection_each();
}

TEST_P(ChannelsTest, AConnectionEndsWithItsChannel) {
  ASSERT_OK(ask_both());
  first_.reset();
  EXPECT_OK(ask(*second_));
  first_ = process_.another_channel();
  EXPECT_OK(ask_both());
  EXPECT_EQ(second_->peer_info().connection, 1U);
}

INSTANTIATE_TEST_SUITE_P(Peers, ChannelsTest, ::testing::Values(wire::PeerKind::kClient, wire::PeerKind::kServer),
                         [](const auto& tested) {
                           return std::string(tested.param == wire::PeerKind::kClient ? "client" : "server");
                         });

}  // namespace
}  // namespace spate::io::testing
