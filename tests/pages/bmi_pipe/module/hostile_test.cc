// SPDX-License-Identifier: Apache-2.0
// The bytes of packets, and peers that break the protocol. Each one loses its connection, and nobody else is affected.
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "base/expect.h"
#include "base/local_packet.h"
#include "bmi/network.h"
#include "bmi/pipe/endpoint.h"
#include "bmi/pipe/packet.h"
#include "bmi/pipe/pipe_module.h"

namespace spate::bmi::pipe {
namespace {

using protocol::FrameType;
using protocol::Header;

Hello a_hello() { return Hello{{std::byte{7}}, {1024 * 1024, 256 * 1024, 100, 0}}; }

TEST(Packet, FramesComeBackAsTheyWere) {
  const Frame frame{Header{FrameType::kClear, MessageClass::kBulk, 1, 2, 3, 4}, {5, 6}};
  const auto back = decode_frame(encode(frame));
  ASSERT_NE(back, std::nullopt);
  EXPECT_EQ(back->header, frame.header);
  EXPECT_EQ(back->credit, frame.credit);
}

TEST(Packet, HellosComeBackAsTheyWere) {
  const auto back = decode_hello(encode(a_hello()));
  ASSERT_NE(back, std::nullopt);
  EXPECT_EQ(back->link, a_hello().link);
  EXPECT_EQ(back->limits, a_hello().limits);
}

/// A server, and raw sockets that send it whatever a test wants.
class Hostile : public testing::Test {
 protected:
  std::unique_ptr<Network> start() {
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(make_pipe_module(clock_));
    return make_network(std::move(modules), {});
  }
  UniqueFd raw_peer() { return connect_to(parse_url(url_).value()).value(); }
  static void say(const UniqueFd& socket, ByteView packet) {
    EXPECT_EQ(send_local_packet(socket.get(), packet, {}), 0);
  }
  bool drive(const std::function<bool()>& until) {
    for (int tries = 0; tries < 100'000; ++tries) {
      if (until()) return true;
      std::array<Completion, 4> done;
      (void)server_->test_context(context_, done);
    }
    return false;
  }
  /// Whether the server closes the connection. Drops the packets that come before its end.
  bool is_dropped(const UniqueFd& socket) {
    Bytes room(kHeaderSize + kMaxPayload);
    return drive([&] {
      LocalPacket packet;
      const int failed = receive_local_packet(socket.get(), room, packet, false);
      return failed == 0 ? packet.size == 0 : failed != EAGAIN;
    });
  }
  /// Checks that the server takes a request of another process.
  void expect_serves() {
    const std::unique_ptr<Network> client = start();
    const ContextId context = client->open_context();
    const Address to_server = client->lookup(std::array{url_}).value();
    ASSERT_OK(client->post_send_unexpected({to_server, Tag(5), MessageClass::kControl, {}}, context, nullptr));
    std::array<UnexpectedMessage, 1> message;
    EXPECT_TRUE(drive([&] {
      std::array<Completion, 1> done;
      (void)client->test_context(context, done);
      return server_->test_unexpected(context_, message) == 1;
    })) << "the server takes no request any more";
  }

  SystemClock clock_;
  std::unique_ptr<Network> server_ = start();
  ContextId context_ = server_->open_context();
  std::string url_ = server_->listen("pipe://*", context_).value();
};

TEST_F(Hostile, AConnectionWithoutAHelloIsDropped) {
  for (const Bytes& packet :
       {Bytes(1), Bytes(kHelloSize), Bytes(kHelloSize + 1), Bytes(kHeaderSize + kMaxPayload + 1)}) {
    const UniqueFd socket = raw_peer();
    say(socket, packet);
    EXPECT_TRUE(is_dropped(socket)) << packet.size() << " bytes";
  }
  expect_serves();
}

TEST_F(Hostile, WrongFramesCostThePeerItsConnection) {
  const auto control = MessageClass::kControl;
  const std::vector<std::pair<const char*, Header>> wrong{
      {"unknown type", {FrameType(0), control, 0, 0, 0, 0}},
      {"unknown class", {FrameType::kEager, MessageClass(2), 0, 0, 0, 0}},
      {"endless message", {FrameType::kEager, control, 0, 1, ~std::uint64_t{0}, 0}},
      {"more than the window", {FrameType::kEager, control, 0, 1, 8 * 1024 * 1024, 0}},
      {"more of no message", {FrameType::kMore, control, 0, 0, 0, 0}},
      {"abort of no message", {FrameType::kAbort, control, 0, 0, 0, 0}},
      {"located message", {FrameType::kAnnounce, control, protocol::kFlagLocated, 1, 10, 0}},
      {"bulk request", {FrameType::kUnexpected, MessageClass::kBulk, 0, 1, 10, 0}},
      {"clear of nothing", {FrameType::kClear, control, 0, 1, 0, 77}},
      {"taken", {FrameType::kTaken, control, 0, 0, 0, 77}},
  };
  for (const auto& [name, header] : wrong) {
    SCOPED_TRACE(name);
    const UniqueFd socket = raw_peer();
    say(socket, encode(a_hello()));
    say(socket, encode(Frame{header, {}}));
    EXPECT_TRUE(is_dropped(socket)) << name;
  }
  expect_serves();
}

TEST_F(Hostile, TooMuchCreditCostsThePeerItsConnection) {
  const UniqueFd socket = raw_peer();
  say(socket, encode(a_hello()));
  // A sender counts at most 2^48 bytes.
  for (int i = 0; i < 70'000 && send_local_packet(socket.get(), encode(Frame{Header{kCredit}, {~0U, 0}}), {}) != EPIPE;
       ++i) {
    std::array<Completion, 1> done;
    (void)server_->test_context(context_, done);
  }
  EXPECT_TRUE(is_dropped(socket)) << "the sum of all credit";
  expect_serves();
}

}  // namespace
}  // namespace spate::bmi::pipe
