// SPDX-License-Identifier: Apache-2.0
// A bare endpoint sends anything it likes to a module. That may cost its own session and nothing else.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/expect.h"
#include "base/random.h"
#include "bmi/network.h"
#include "bmi/ofi/ofi_module.h"
#include "bmi/ofi/url.h"
#include "bmi/ofi/wire.h"

#ifndef __has_feature  // g++
#define __has_feature(x) 0
#endif

namespace spate::bmi::ofi {
namespace {

/// A peer that keeps everything it receives.
struct RawPeer final : WireClient {
  void on_packet(ByteView bytes) override {
    const std::optional<Packet> packet = decode_packet(bytes);
    if (!packet) return;
    if (packet->header.type == kWelcome) welcome = decode_welcome(packet->payload);
    byes += packet->header.type == kBye ? 1 : 0;
  }
  void on_sent(Route&, bool) override {}
  void on_read(void*, bool) override {}
  std::optional<Welcome> welcome;
  int byes = 0;
};

struct HostileTest : testing::Test {
  void SetUp() override {
    if (__has_feature(thread_sanitizer)) GTEST_SKIP() << "ThreadSanitizer knows nothing of the locks inside libfabric";
    auto made = make_ofi_module(clock);
    module = made.get();
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(std::move(made));
    network = make_network(std::move(modules));
    context = network->open_context();
    const Result<std::string> listening = network->listen("ofi+tcp://127.0.0.1:0", context);
    ASSERT_OK(listening);
    url = *listening;
    WireOptions options;
    options.provider = "tcp;ofi_rxm";
    options.node = "127.0.0.1";
    options.bind = true;
    Result<std::unique_ptr<Wire>> opened = Wire::open(options, nullptr);
    ASSERT_OK(opened);
    wire = std::move(*opened);
    route = wire->open_route(fabric_address(*parse_url(url)), this);
    ASSERT_NE(route, nullptr);
  }
  void step() {
    wire->poll(raw);
    (void)wire->resend(*route);
    std::array<UnexpectedMessage, 4> messages;
    const std::size_t n = network->test_unexpected(context, messages);
    if (n > 0) speaker = messages[0].peer;
    received += n;
  }
  void until(const std::function<bool()>& done) {
    while (!done()) step();
  }
  void say(ByteView bytes) {
    until([&] { return route->refused == nullptr; });
    PacketBuffer* buffer = nullptr;
    until([&] { return (buffer = wire->take_buffer()) != nullptr; });  // some buffers may still be in flight
    std::ranges::copy(bytes, Wire::data_of(*buffer));
    (void)wire->send(*route, *buffer, bytes.size());
    until([&] { return route->refused == nullptr; });
  }
  void say(PacketHeader header, const Bytes& payload) {
    Bytes bytes(kHeaderSize);
    encode(header, payload.size(), bytes.data());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    say(bytes);
  }
  /// Opens a session as a correct peer does.
  void say_hello() {
    Hello hello;
    ++links;
    hello.link[0] = static_cast<std::byte>(links);
    hello.link[1] = static_cast<std::byte>(links >> 8U);
    hello.session = links;
    hello.limits = {1 << 20, 1 << 18, 100, 4096};
    hello.address = wire->name();
    PacketHeader header;
    header.type = kHello;
    raw.welcome.reset();
    say(header, encode(hello));
    until([&] { return raw.welcome.has_value(); });
    ASSERT_EQ(raw.welcome->status, Errc::kOk);
  }
  /// Sends the packet in a new session, which the module must end.
  void expect_dropped_for(PacketHeader header, const Bytes& payload, const char* what) {
    say_hello();
    const std::uint64_t errors = module->counters().protocol_errors;
    const int byes = raw.byes;
    header.session = raw.welcome->session;
    say(header, payload);
    until([&] { return raw.byes > byes; });
    EXPECT_EQ(module->counters().protocol_errors, errors + 1) << what;
  }
  SystemClock clock;
  OfiModule* module = nullptr;
  std::unique_ptr<Network> network;
  ContextId context;
  std::string url;
  std::unique_ptr<Wire> wire;
  Route* route = nullptr;
  RawPeer raw;
  std::uint64_t links = 0;
  std::size_t received = 0;
  Address speaker;  // of the last message
};

PacketHeader header_of(FrameType type, std::uint64_t length = 0) {
  PacketHeader header;
  header.type = type;
  header.length = length;
  return header;
}

TEST_F(HostileTest, ABreachOfTheProtocolCostsTheSession) {
  expect_dropped_for(header_of(FrameType::kEager, 1), Bytes(2), "more than it says");
  expect_dropped_for(header_of(FrameType::kMore), Bytes(1), "goes on with nothing");
  expect_dropped_for(header_of(FrameType::kAbort), {}, "breaks off nothing");
  expect_dropped_for(header_of(FrameType::kUnexpected, std::uint64_t{1} << 40U), Bytes(1), "larger than it may be");
  expect_dropped_for(header_of(FrameType::kEager, std::uint64_t{1} << 40U), Bytes(1), "beyond its credit");
  expect_dropped_for(header_of(FrameType::kClear), {}, "clears what nobody announced");
  expect_dropped_for(header_of(FrameType::kTaken), {}, "took what nobody offered");
  expect_dropped_for(header_of(FrameType::kWithdrawn), {}, "answers what nobody asked");
}

// The peer reads nothing, so that more packets are in flight to it than the module allows itself. It must learn of its
// session's end all the same.
TEST_F(HostileTest, ADropReachesThePeerHoweverMuchIsInFlight) {
  say_hello();
  PacketHeader header = header_of(FrameType::kUnexpected, 3);
  header.session = raw.welcome->session;
  say(header, Bytes(3));
  until([&] { return received > 0; });
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::array<Segment, 1> zeros{Segment::of_file(nothing.get(), 0, std::uint64_t{256} << 20U)};
  Message message{speaker, Tag(1), MessageClass::kControl, zeros};
  message.receiver_ready = true;
  const auto posted = network->post_send(message, context, nullptr);
  ASSERT_OK(posted);
  ASSERT_FALSE(posted->done) << "the peer takes all at once, so this tests nothing";
  const auto test = [&] {
    std::array<Completion, 1> done;
    (void)network->test_context(context, done);
  };
  for (std::uint64_t sent = 0, idle = 0; idle < 1000; ++idle) {
    test();
    if (std::exchange(sent, module->counters().packets_sent) != module->counters().packets_sent) idle = 0;
  }
  PacketBuffer* buffer = wire->take_buffer();
  ASSERT_NE(buffer, nullptr);
  header = header_of(FrameType::kAbort);
  header.session = raw.welcome->session;
  encode(header, 0, Wire::data_of(*buffer));
  for (bool sent = wire->send(*route, *buffer, kHeaderSize); !sent; sent = wire->resend(*route)) test();
  while (module->counters().protocol_errors == 0) test();
  EXPECT_EQ(raw.byes, 0);
  until([&] { return raw.byes > 0; });
}

TEST_F(HostileTest, AnyBytesAreSurvived) {
  SeededRandom random(5);
  say_hello();
  for (int i = 0; i < 2000; ++i) {
    Bytes bytes(1 + random.below(300));
    random.fill(bytes);
    if (random.chance(3, 4)) {
      bytes.resize(std::max(bytes.size(), kHeaderSize));
      PacketHeader header;
      header.type = static_cast<FrameType>(1 + random.below(18));
      header.message_class = static_cast<MessageClass>(random.below(2));
      header.flags = static_cast<std::uint8_t>(random.below(4));
      header.session = raw.welcome->session;
      header.length = random.below(400);
      header.tag = random.below(3);
      header.id = random.below(10);
      encode(header, bytes.size() - kHeaderSize, bytes.data());
    }
    say(bytes);
    if (raw.byes > 0) {
      raw.byes = 0;
      say_hello();
    }
  }
  say_hello();
  const std::size_t before = received;
  PacketHeader header = header_of(FrameType::kUnexpected, 3);
  header.session = raw.welcome->session;
  say(header, Bytes(3));
  until([&] { return received > before; });
}

}  // namespace
}  // namespace spate::bmi::ofi
