// SPDX-License-Identifier: Apache-2.0
// Requests of other versions, or with values that this server does not know. It refuses them with a message that names
// these values, and does nothing worse.

#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

class HeaderTest : public ::testing::Test {
 protected:
  HeaderTest() : network_(world_.make_network()), context_(*network_, world_.executor()) {
    peer_ = network_->lookup(std::array{world_.url()}).value();
  }

  struct Answer {
    Errc sent = Errc::kOk;  // otherwise the reason why there is no answer
    wire::ReplyHeader header;
    Bytes body;
  };
  static job::Task<Answer> ask_task(job::NetworkContext& context, bmi::Address peer, std::uint64_t tag, Bytes request) {
    Bytes room(4096);
    bmi::Message message;
    message.peer = peer;
    message.tag = bmi::Tag(tag);
    const bmi::Segment to = bmi::Segment::of(MutableByteView(room));
    message.segments = {&to, 1};
    job::NetworkOp receive(context);
    receive.post_recv(message);
    const bmi::Segment from = bmi::Segment::of(ByteView(request));
    message.segments = {&from, 1};
    job::NetworkOp send(context);
    send.post_send_unexpected(message);
    std::ignore = co_await send.wait();
    const auto got = co_await receive.wait();
    Answer answer;
    answer.sent = got.code();
    if (got) {
      room.resize(*got);
      wire::Reader reader(room);
      reader(answer.header);
      EXPECT_TRUE(reader.decoder().ok());
      answer.body = to_bytes(ByteView(room).last(reader.decoder().remaining()));
    }
    co_return answer;
  }
  Answer ask(Bytes request) { return world_.run(ask_task(context_, peer_, ++tag_, std::move(request))); }

  static wire::RequestHeader ping_header() {
    wire::RequestHeader header;
    header.op = wire::Op::kPing;
    header.fs = kFs;
    header.reply_room = 4096;
    return header;
  }
  static wire::HelloOffer offer() {
    wire::HelloOffer offer;
    offer.key_id = wire::FileKey(kFs, World::client_key()).id();
    return offer;
  }
  static Bytes ping(const wire::RequestHeader& header) {
    Bytes bytes;
    wire::encode_body(header, bytes);
    wire::encode_body(wire::PingRequest(), bytes);
    return bytes;
  }
  /// The server still answers a ping, over the same connection unless that was lost.
  void expect_served() { EXPECT_EQ(ask(ping(ping_header())).header.status, Errc::kOk); }
  static bool says(const Answer& answer, std::string_view part) {
    return answer.header.context.find(part) != std::string::npos;
  }

  World world_;
  std::unique_ptr<bmi::Network> network_;
  job::NetworkContext context_;
  bmi::Address peer_;
  std::uint64_t tag_ = 0;
};

TEST_F(HeaderTest, ANewerVersionGetsTheSupportedVersionsAsAnswer) {
  for (const std::size_t size : {4U, 5U, 60U, 1000U}) {
    Bytes newer;
    Encoder out(newer);
    out.u16(wire::kProtocolVersion + 1);
    out.u16(static_cast<std::uint16_t>(wire::Op::kHello));
    newer.resize(size, std::byte{0xFF});
    const Answer answer = ask(newer);
    ASSERT_EQ(answer.sent, Errc::kOk);
    EXPECT_EQ(answer.header.version, wire::kProtocolVersion);
    EXPECT_EQ(answer.header.status, Errc::kVersionMismatch);
    EXPECT_TRUE(says(answer, "protocol 2 to 2")) << answer.header.context;
    EXPECT_TRUE(says(answer, "protocol 3")) << answer.header.context;
    expect_served();
  }
  EXPECT_EQ(world_.metric("spate_rpc_refused_total"), 4U);
}

TEST_F(HeaderTest, VersionZeroIsRefused) {
  wire::RequestHeader header = ping_header();
  header.version = 0;
  EXPECT_EQ(ask(ping(header)).header.status, Errc::kVersionMismatch);
}

TEST_F(HeaderTest, AnUnknownPriorityIsRefusedByName) {
  wire::RequestHeader header = ping_header();
  header.priority = static_cast<wire::Priority>(3);
  const Answer answer = ask(ping(header));
  EXPECT_EQ(answer.header.status, Errc::kNotSupported);
  EXPECT_TRUE(says(answer, "priority 3")) << answer.header.context;
  expect_served();
}

TEST_F(HeaderTest, AnUnknownOperationIsRefusedByNumber) {
  wire::RequestHeader header = ping_header();
  header.op = static_cast<wire::Op>(999);
  const Answer answer = ask(ping(header));
  EXPECT_EQ(answer.header.status, Errc::kNotSupported);
  EXPECT_TRUE(says(answer, "999")) << answer.header.context;
  expect_served();
}

TEST_F(HeaderTest, AnUnauthenticatedPeerGetsNoCountersOfTheServer) {
  for (const wire::Op op : {wire::Op::kStats, wire::Op::kListLoads, wire::Op::kListFileLoads}) {
    wire::RequestHeader header = ping_header();
    header.op = op;
    Bytes request;
    wire::encode_body(header, request);
    const Answer answer = ask(request);
    EXPECT_EQ(answer.header.status, Errc::kUnauthenticated) << op_name(op);
    EXPECT_TRUE(answer.body.empty()) << op_name(op);
    expect_served();
  }
}

TEST_F(HeaderTest, AHelloWithoutACommonVersionIsRefusedByName) {
  wire::RequestHeader header = ping_header();
  header.op = wire::Op::kHello;
  wire::HelloRequest hello;
  hello.oldest_version = 3;
  hello.newest_version = 4;
  Bytes bytes;
  wire::encode_body(header, bytes);
  wire::encode_body(hello, bytes);
  wire::encode_body(offer(), bytes);
  const Answer answer = ask(bytes);
  EXPECT_EQ(answer.header.status, Errc::kVersionMismatch);
  EXPECT_TRUE(says(answer, "3 to 4")) << answer.header.context;
  EXPECT_TRUE(says(answer, "2 to 2")) << answer.header.context;
}

TEST_F(HeaderTest, OnlyFeaturesThatBothSidesHaveAreAgreedOn) {
  wire::RequestHeader header = ping_header();
  header.op = wire::Op::kHello;
  wire::HelloRequest hello;
  hello.newest_version = 9;
  hello.features = ~0ULL;
  Bytes bytes;
  wire::encode_body(header, bytes);
  wire::encode_body(hello, bytes);
  wire::encode_body(offer(), bytes);
  const Answer answer = ask(bytes);
  ASSERT_EQ(answer.header.status, Errc::kOk) << answer.header.context;
  const auto reply = wire::decode_body_and<wire::HelloReply, wire::HelloAnswer>(answer.body);
  ASSERT_OK(reply);
  EXPECT_EQ(reply->first.version, wire::kProtocolVersion);
  EXPECT_EQ(reply->first.features, wire::kOurFeatures);
}

TEST_F(HeaderTest, AnInvalidHeaderEndsTheConnection) {
  Bytes bytes = ping(ping_header());
  bytes.resize(20);
  EXPECT_EQ(ask(bytes).sent, Errc::kConnectionLost);
  expect_served();  // over a new connection
}

}  // namespace
}  // namespace spate::io::testing
