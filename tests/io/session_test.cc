// SPDX-License-Identifier: Apache-2.0
// Joining, incarnations and fences. Requests of an older connection or of an ended session must be over before anything
// new begins.

#include <functional>

#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

constexpr std::uint64_t kSessionBytes = 100'000;

class SessionTest : public ::testing::Test {
 protected:
  wire::WriteRequest bulk_write(std::uint64_t bytes = kSessionBytes) {
    return write_request(where_, *datatype::Description::contiguous(0, bytes));
  }
  Errc small_write(Client& client) {
    wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 10));
    request.has_inline_data = true;
    return world_.run(client.write(request, {pattern(1, 10)}, client.capability(kFile))).code();
  }
  Errc join_with(const std::function<void(SessionTicket&)>& change, bool sign_again) {
    Client client(world_, {.client = ClientId(200)});
    change(*client.identity().ticket);
    if (sign_again) client.identity().ticket->mac = sign(World::server_key(), kFs, *client.identity().ticket);
    return client.ask<wire::IoStatfsReply>(wire::IoStatfsRequest()).code();
  }
  static job::Task<void> keep(job::Task<Result<wire::WriteReply>> task, Errc& code, bool& ended) {
    auto result = co_await std::move(task);
    code = result.code();
    ended = true;
  }
  Errc fence(ClientId client, std::uint32_t lowest_epoch) {
    wire::FenceRequest request;
    request.client = client;
    request.lowest_epoch = lowest_epoch;
    return server_.ask<wire::FenceReply>(request).code();
  }

  World world_;
  Client client_{world_};
  Client server_{world_, {.kind = wire::PeerKind::kServer}};
  wire::SlotSet where_ = slot_set(kFile, 1, 1 << 20);
};

TEST_F(SessionTest, TicketsOfOthersForgedOnesAndExpiredOnesAreRefused) {
  EXPECT_EQ(join_with([](SessionTicket&) {}, false), Errc::kOk);
  EXPECT_EQ(join_with([](SessionTicket& t) { t.epoch = 9; }, false), Errc::kUnauthenticated);
  EXPECT_EQ(join_with([](SessionTicket& t) { t.uid = 9; }, false), Errc::kUnauthenticated);
  EXPECT_EQ(join_with([](SessionTicket& t) { t.client = ClientId(201); }, true), Errc::kUnauthenticated);
  EXPECT_EQ(join_with([](SessionTicket& t) { t.expiry.ns = 0; }, true), Errc::kSessionUnknown);
  EXPECT_EQ(join_with([](SessionTicket& t) { t.expiry.ns *= 2; }, true), Errc::kUnauthenticated);
  Client without(world_, {.client = ClientId(300)});
  without.identity().ticket.reset();
  EXPECT_ERRC(without.ask<wire::IoStatfsReply>(wire::IoStatfsRequest()), Errc::kUnauthenticated);
}

/// A connection of protocol version 1, without the checks of rpc::Channel.
class RawConnection {
 public:
  RawConnection(Client& client, const std::string& url) : client_(client), room_(16 * 1024) {
    const std::vector<std::string> urls{url};
    peer_ = *client.context().network().lookup(urls);
  }
  template <typename Reply, typename Request>
  Result<Reply> ask(const Request& request, ClientId as) {
    Bytes message;
    wire::RequestHeader header;
    header.version = 1;
    header.op = Request::kOp;
    header.fs = kFs;
    header.client = as;
    header.reply_room = static_cast<std::uint32_t>(room_.size());
    wire::encode_body(header, message);
    wire::encode_body(request, message);
    SPATE_TRY(const std::uint64_t size, client_.world().run(exchange(message)));
    wire::ReplyHeader answer;
    wire::Reader reader(ByteView(room_).first(size));
    reader(answer);
    if (answer.status != Errc::kOk) return answer.status;
    return wire::decode_body<Reply>(ByteView(room_).first(size).last(reader.decoder().remaining()));
  }

 private:
  job::Task<Result<std::uint64_t>> exchange(const Bytes& message) {
    const bmi::Segment room = bmi::Segment::of(MutableByteView(room_));
    const bmi::Segment out = bmi::Segment::of(ByteView(message));
    bmi::Message post;
    post.peer = peer_;
    post.tag = bmi::Tag(++tag_ << 20U);
    post.segments = {&room, 1};
    job::NetworkOp receive(client_.context());
    receive.post_recv(post);
    post.segments = {&out, 1};
    job::NetworkOp send(client_.context());
    send.post_send_unexpected(post);
    std::ignore = co_await send.wait();
    co_return co_await receive.wait();
  }
  Client& client_;
  Bytes room_;
  bmi::Address peer_;
  std::uint64_t tag_ = 0;
};

// A failed authentication must not make a client's connection that of another client.
TEST_F(SessionTest, AFailedAuthenticationLeavesNoSession) {
  WorldOptions old;
  old.allow_version_1 = true;
  World world(old);
  Client client(world);
  Client other(world, {.client = ClientId(150)});
  RawConnection raw(client, world.url());
  wire::HelloRequest hello;
  hello.oldest_version = hello.newest_version = 1;
  const auto welcome = raw.ask<wire::HelloReply>(hello, ClientId());
  ASSERT_OK(welcome);
  const auto authenticate_as = [&](ClientId client, const std::optional<SessionTicket>& ticket) {
    wire::AuthenticateRequest request;
    request.client = client;
    request.incarnation = 1;
    request.ticket = ticket;
    request.server_nonce = welcome->server_nonce;
    request.proof = wire::auth_proof(World::client_key(), request, hello.client_nonce);
    return raw.ask<wire::AuthenticateReply>(request, ClientId()).code();
  };
  EXPECT_EQ(authenticate_as(ClientId(100), client.identity().ticket), Errc::kOk);
  EXPECT_OK(raw.ask<wire::IoStatfsReply>(wire::IoStatfsRequest(), ClientId(100)));
  EXPECT_ERRC(raw.ask<wire::IoStatfsReply>(wire::IoStatfsRequest(), ClientId(150)), Errc::kUnauthenticated);
  EXPECT_EQ(authenticate_as(ClientId(150), std::nullopt), Errc::kUnauthenticated);  // without a ticket
  EXPECT_ERRC(raw.ask<wire::IoStatfsReply>(wire::IoStatfsRequest(), ClientId(150)), Errc::kUnauthenticated);
}

// A client of version 1 is refused with a reason, unless the server allows that version.
TEST_F(SessionTest, Version1IsRefusedUnlessItIsAllowed) {
  RawConnection raw(client_, world_.url());
  wire::HelloRequest hello;
  hello.oldest_version = hello.newest_version = 1;
  EXPECT_ERRC(raw.ask<wire::HelloReply>(hello, ClientId()), Errc::kVersionMismatch);
}

TEST_F(SessionTest, AFenceRefusesOlderEpochsAndOnlyThose) {
  EXPECT_EQ(small_write(client_), Errc::kOk);
  EXPECT_EQ(fence(ClientId(100), 1), Errc::kOk);
  EXPECT_EQ(small_write(client_), Errc::kOk);
  EXPECT_EQ(fence(ClientId(100), 2), Errc::kOk);
  EXPECT_EQ(small_write(client_), Errc::kSessionFenced);
  wire::DatafileStatRequest stat;
  stat.handle = kFile;
  stat.slots = where_.slots;
  EXPECT_ERRC(client_.ask<wire::DatafileStatReply>(stat), Errc::kSessionFenced);
  Client late(world_, {.client = ClientId(100), .epoch = 1});
  EXPECT_EQ(small_write(late), Errc::kSessionFenced);
  Client renewed(world_, {.client = ClientId(100), .epoch = 2});
  EXPECT_EQ(small_write(renewed), Errc::kOk);
  Client other(world_, {.client = ClientId(101)});
  EXPECT_EQ(small_write(other), Errc::kOk);
}

TEST_F(SessionTest, AFenceIsNeverLowered) {
  EXPECT_EQ(fence(ClientId(100), 5), Errc::kOk);
  EXPECT_EQ(fence(ClientId(100), 1), Errc::kOk);
  EXPECT_EQ(small_write(client_), Errc::kSessionFenced);
}

TEST_F(SessionTest, AFenceOutlivesTheServerProcess) {
  EXPECT_EQ(fence(ClientId(100), 2), Errc::kOk);
  world_.restart();
  EXPECT_EQ(small_write(client_), Errc::kSessionFenced);
}

TEST_F(SessionTest, FencesAreDroppedWhenTheyHaveNoEffectAnyMore) {
  EXPECT_EQ(fence(ClientId(100), 2), Errc::kOk);
  world_.pass(std::chrono::hours(24 * 29));
  ASSERT_OK(world_.run(world_.io().purge()));
  world_.restart();
  EXPECT_EQ(join_with([](SessionTicket& t) { t.client = ClientId(200); }, false), Errc::kOk);
  {
    Client still(world_);
    EXPECT_EQ(small_write(still), Errc::kSessionFenced);
  }
  world_.pass(std::chrono::hours(24 * 2));
  ASSERT_OK(world_.run(world_.io().purge()));
  world_.restart();
  Client again(world_);
  EXPECT_EQ(small_write(again), Errc::kOk);
}

// A write waits for data that does not come. A fence ends the write, and is answered only after that.
TEST_F(SessionTest, AFenceEndsRequestsUnderWay) {
  Errc code = Errc::kOk;
  bool ended = false;
  Sending two;
  two.messages = 2;
  world_.spawn(
      keep(client_.write(bulk_write(), {pattern(1, kSessionBytes)}, client_.capability(kFile), two), code, ended));
  world_.pass(std::chrono::seconds(1));
  EXPECT_GT(world_.buffers_used(), 0U);
  EXPECT_FALSE(ended) << name(code);
  EXPECT_EQ(fence(ClientId(100), 2), Errc::kOk);
  EXPECT_EQ(world_.buffers_used(), 0U);
  world_.pass(std::chrono::seconds(1));
  EXPECT_TRUE(ended) << "the write is still under way";
  EXPECT_EQ(code, Errc::kSessionFenced);
}

TEST_F(SessionTest, AFenceWaitsForStorageThatIsUnderWay) {
  world_.storage(0).add({.op = trove::BytestreamOp::kWrite,
                         .kind = trove::BytestreamFault::Kind::kDelay,
                         .delay = std::chrono::seconds(5)});
  Errc code = Errc::kOk;
  bool ended = false;
  wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 10));
  request.has_inline_data = true;
  world_.spawn(keep(client_.write(request, {pattern(1, 10)}, client_.capability(kFile)), code, ended));
  world_.pass(std::chrono::seconds(1));
  const MonoTime before = world_.clock().now();
  EXPECT_EQ(fence(ClientId(100), 2), Errc::kOk);
  EXPECT_GE(world_.clock().now() - before, std::chrono::milliseconds(3900));
  world_.pass(std::chrono::seconds(1));
  EXPECT_TRUE(ended) << "the write is still under way";
}

// A client's connection breaks during a write, and the client connects again. The first attempt must have ended before
// the new connection is accepted.
TEST_F(SessionTest, ANewIncarnationEndsRequestsOfTheOlderOne) {
  Errc code = Errc::kOk;
  bool ended = false;
  Sending one;
  one.messages = 1;
  world_.spawn(
      keep(client_.write(bulk_write(), {pattern(1, kSessionBytes)}, client_.capability(kFile), one), code, ended));
  world_.pass(std::chrono::seconds(1));
  EXPECT_GT(world_.buffers_used(), 0U);

  Client reborn(world_);  // with its own network, so that the server does not notice the first one's loss
  auto second = reborn.another_channel();
  std::ignore = world_.run(second->call<wire::IoStatfsReply>(wire::IoStatfsRequest(), reborn.options_for(nullptr)));
  // The incarnation is 1 again, which means the same set of connections. So the server ends nothing.
  EXPECT_GT(world_.buffers_used(), 0U);
  second->repeat_handshake();
  ASSERT_OK(world_.run(second->call<wire::IoStatfsReply>(wire::IoStatfsRequest(), reborn.options_for(nullptr))));
  EXPECT_EQ(world_.buffers_used(), 0U);
  EXPECT_FALSE(ended) << "its sender is told, and sends it again: its program hears nothing of that";
  world_.pass(std::chrono::seconds(1));
  EXPECT_GT(world_.buffers_used(), 0U);
  world_.pass(std::chrono::seconds(100));  // the deadline of the write, which must end before the world does
  EXPECT_TRUE(ended) << "the write is still under way";
  EXPECT_NE(code, Errc::kOk);
}

TEST_F(SessionTest, AnOlderConnectionIsRefused) {
  EXPECT_EQ(small_write(client_), Errc::kOk);
  Client newer(world_);
  ASSERT_OK(newer.ask<wire::IoStatfsReply>(wire::IoStatfsRequest()));
  newer.channel().repeat_handshake();
  ASSERT_OK(newer.ask<wire::IoStatfsReply>(wire::IoStatfsRequest()));
  newer.channel().repeat_handshake();
  ASSERT_OK(newer.ask<wire::IoStatfsReply>(wire::IoStatfsRequest()));  // now with incarnation 3
  // The first channel's request is refused. Its next handshake says incarnation 2 and is refused, too; the one after
  // that says 3, which is the newest.
  EXPECT_EQ(small_write(client_), Errc::kUnauthenticated);
  EXPECT_EQ(small_write(newer), Errc::kOk);
}

}  // namespace
}  // namespace spate::io::testing
