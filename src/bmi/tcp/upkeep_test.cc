// SPDX-License-Identifier: Apache-2.0
// Upkeep: the module counts, and closes idle connections.
#include <map>

#include "bmi/tcp/module_fixture.h"

namespace spate::bmi::tcp {
namespace {

class TcpUpkeep : public ModuleTest {
 protected:
  std::map<std::string_view, std::uint64_t> counts() {
    std::map<std::string_view, std::uint64_t> all;
    for (const NetworkCount& count : network_->counts()) {
      EXPECT_EQ(count.module, "tcp");
      EXPECT_TRUE(all.emplace(count.name, count.value).second) << count.name;
    }
    return all;
  }
};

TEST_F(TcpUpkeep, CountsWhatWentThrough) {
  const auto before = counts();
  for (const auto& [name, value] : before) EXPECT_EQ(value, 0U) << name;
  RawPeer peer = connect();
  handshake(peer, hello());
  const Address address = introduce(peer);
  Bytes room(100);
  const OpId received = receive(address, 1, room);
  EXPECT_TRUE(peer.write_frame(frame(FrameType::kEager, 1, 100), room));
  EXPECT_EQ(finish(received), Errc::kOk);
  EXPECT_TRUE(peer.write_frame(frame(FrameType::kReady, 2, 7), Bytes(7)));  // without a receive
  EXPECT_TRUE(drive([&] { return counts()["dropped_messages"] == 1; }));
  EXPECT_EQ(finish(send(address, 3, room)), Errc::kOk);
  const auto after = counts();
  EXPECT_EQ(after.at("connections_accepted"), 1U);
  EXPECT_EQ(after.at("connections_made"), 0U);
  EXPECT_EQ(after.at("received_messages"), 2U);
  EXPECT_EQ(after.at("received_bytes"), kHelloSize + 3 * kHeaderSize + 107);
  EXPECT_EQ(after.at("sent_messages"), 1U);
  EXPECT_EQ(after.at("sent_bytes"), kHeaderSize + 100);
  EXPECT_EQ(after.at("credit_stalls"), 0U);
  peer.close();
  EXPECT_TRUE(drive([&] { return counts()["connections_lost"] == 1; }));
}

TEST_F(TcpUpkeep, CountsWhatWaitsForCredit) {
  Hello h = hello();
  h.limits = {cost_of(1000), 744, 10};
  RawPeer peer = connect();
  handshake(peer, h);
  const Address address = introduce(peer);
  const Bytes request(744);
  const std::array segments{Segment::of(ByteView(request))};
  for (int i = 0; i < 3; ++i) noted(network_->post_send_unexpected(message(address, 5, segments), context_, nullptr));
  settle();
  EXPECT_EQ(counts()["credit_stalls"], 2U);
}

/// The module as the side that connects, to a server that is a raw peer.
class TcpIdle : public ModuleTest {
 protected:
  static constexpr std::uint32_t kIdleMs = 10'000;

  void SetUp() override {
    NetworkOptions options;
    options.idle_close_ms = kIdleMs;
    make(TcpOptions(), options);
    const Endpoint any = parse_url("tcp://127.0.0.1:0").value();
    listener_ = listen_on(any).value();
    server_ = network_->lookup(std::array{advertised_url(any, listener_.get())}).value();
  }
  /// Accepts the connection that the module makes, and welcomes it.
  RawPeer accept() {
    UniqueFd fd;
    EXPECT_TRUE(drive([&] {
      fd.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      return static_cast<bool>(fd);
    }));
    RawPeer peer(std::move(fd));
    Welcome welcome;
    welcome.limits = hello().limits;
    EXPECT_TRUE(peer.write(encode(welcome)));
    return peer;
  }
  void pass(std::uint32_t ms) {
    clock_.advance(std::chrono::milliseconds(ms));
    settle();
  }
  testing::AssertionResult connected() {
    const bool is = network_->peer_info(server_).connected;
    return (is ? testing::AssertionSuccess() : testing::AssertionFailure()) << (is ? "connected" : "not connected");
  }

  UniqueFd listener_;
  Address server_;
  Bytes data_ = Bytes(10);
};

TEST_F(TcpIdle, AnIdleConnectionIsClosedAndTheNextPostReconnects) {
  const OpId first = send(server_, 1, data_);
  RawPeer peer = accept();
  EXPECT_EQ(finish(first), Errc::kOk);
  pass(kIdleMs / 2 - 1);
  EXPECT_TRUE(connected());
  for (int i = 0; i < 4; ++i) pass(kIdleMs / 2);
  EXPECT_FALSE(connected());
  EXPECT_TRUE(peer.ended());
  EXPECT_EQ(module_->counters().connections_idle, 1U);
  EXPECT_EQ(module_->counters().connections_lost, 0U);
  const OpId second = send(server_, 1, data_);
  RawPeer again = accept();
  EXPECT_EQ(finish(second), Errc::kOk);
  EXPECT_TRUE(connected());
}

TEST_F(TcpIdle, PostsAndMessagesKeepAConnectionOpen) {
  const OpId sent = send(server_, 1, data_);
  RawPeer peer = accept();
  EXPECT_EQ(finish(sent), Errc::kOk);
  Bytes room(10);
  const OpId waiting = receive(server_, 2, room);
  for (int i = 0; i < 6; ++i) pass(kIdleMs);
  EXPECT_TRUE(connected());
  EXPECT_TRUE(peer.write_frame(frame(FrameType::kEager, 2, 10), data_));
  EXPECT_EQ(finish(waiting), Errc::kOk);
  EXPECT_TRUE(peer.write_frame(frame(FrameType::kEager, 3, 10), data_));  // nobody has posted a receive for it yet
  for (int i = 0; i < 6; ++i) pass(kIdleMs);
  EXPECT_TRUE(connected());
  const OpId taken = receive(server_, 3, room);
  EXPECT_EQ(finish(taken), Errc::kOk);
  for (int i = 0; i < 6; ++i) {  // a message from time to time
    EXPECT_EQ(finish(send(server_, 1, data_)), Errc::kOk);
    pass(kIdleMs / 2);
  }
  EXPECT_TRUE(connected());
  for (int i = 0; i < 6; ++i) pass(kIdleMs);
  EXPECT_FALSE(connected());
}

// The side that accepted a connection cannot know that no request is in flight.
TEST_F(TcpIdle, TheAcceptingSideClosesNoIdleConnection) {
  RawPeer peer = connect();
  handshake(peer, hello());
  introduce(peer);
  for (int i = 0; i < 6; ++i) pass(kIdleMs);
  EXPECT_FALSE(peer.ended());
}

}  // namespace
}  // namespace spate::bmi::tcp
