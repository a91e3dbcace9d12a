// SPDX-License-Identifier: Apache-2.0
// Addresses, and connections that cannot be made, that break, and that come back.
#include <gmock/gmock.h>

#include <array>
#include <cstdlib>

#include "base/expect.h"
#include "tests/bmi/harness.h"

namespace spate::bmi::conformance {
namespace {

NetworkOptions impatient() {
  NetworkOptions options;
  // An RDMA device in software is in a virtual machine with an emulated processor, which is slow.
  options.connect_timeout_ms = std::getenv("SPATE_TEST_VERBS") == nullptr ? 500 : 3000;
  return options;
}

TEST_P(Bmi, MalformedUrlsAreRefused) {
  Process& peer = start(false);
  for (const std::string& url :
       {std::string(), std::string("nothing"), world_->scheme() + "://", "://" + world_->scheme()}) {
    const std::array<std::string, 1> urls{url};
    EXPECT_ERRC(peer->lookup(urls), Errc::kBadAddress) << url;
  }
  EXPECT_ERRC(peer->lookup({}), Errc::kBadAddress);
  EXPECT_ERRC(peer->listen(world_->scheme() + "://", peer.context), Errc::kBadAddress);
}

TEST_P(Bmi, UnknownModulesAreNamedAndSkipped) {
  const Pair pair = start_pair();
  const std::array<std::string, 1> unknown{"pigeon://7"};
  EXPECT_ERRC((*pair.client)->lookup(unknown), Errc::kNoSuchModule);
  const std::array<std::string, 2> mixed{"pigeon://7", pair.server->url};
  const Result<Address> address = (*pair.client)->lookup(mixed);
  ASSERT_OK(address);
  introduce(*pair.client, *address, *pair.server);
  EXPECT_ERRC((*pair.client)->listen("pigeon://7", pair.client->context), Errc::kNoSuchModule);
}

TEST_P(Bmi, TheSameListYieldsTheSameAddress) {
  const Pair pair = start_pair();
  EXPECT_EQ(lookup(*pair.client, pair.server->url), pair.to_server);
  const std::array<std::string, 2> list{pair.server->url, world_->dead_url()};
  const Result<Address> once = (*pair.client)->lookup(list);
  const Result<Address> twice = (*pair.client)->lookup(list);
  ASSERT_OK(once);
  ASSERT_OK(twice);
  EXPECT_EQ(*once, *twice);
  EXPECT_NE(*once, pair.to_server);
}

TEST_P(Bmi, LookupMakesNoConnection) {
  Process& server = start(true);
  Process& client = start(false);
  const Address address = lookup(client, server.url);
  settle();
  EXPECT_FALSE(client->peer_info(address).connected);
  EXPECT_EQ(client->peer_info(address).connection, 0U);
  introduce(client, address, server);
  EXPECT_TRUE(client->peer_info(address).connected);
  EXPECT_EQ(client->peer_info(address).connection, 1U);
  EXPECT_EQ(client->peer_info(address).url, server.url);
}

TEST_P(Bmi, AUrlWithoutAListenerIsUnreachable) {
  Process& client = start(false, impatient());
  const Address nobody = lookup(client, world_->dead_url());
  const Bytes data = pattern(1, 0, 100'000);
  Bytes room(100);
  const OpId small = send(client, {nobody, 1}, {data.data(), 10});
  const OpId large = send(client, {nobody, 1, MessageClass::kBulk}, data);
  const OpId request = send_unexpected(client, {nobody, 1}, {data.data(), 10});
  const OpId in = recv(client, {nobody, 1}, room);
  for (const OpId op : {small, large, request, in}) {
    const Completion c = finish(client, op);
    EXPECT_EQ(c.status, Errc::kUnreachable);
    EXPECT_EQ(c.actual_size, 0U);
  }
  // The same again: the failure is not remembered for ever, and nothing crashes.
  EXPECT_EQ(finish(client, send_unexpected(client, {nobody, 1}, {data.data(), 10})).status, Errc::kUnreachable);
}

TEST_P(Bmi, AClaimedAddressHasAConnectionOfItsOwnAndEndsItWhenItIsReleased) {
  Process& server = start(true);
  Process& client = start(false);
  const std::array<std::string, 1> urls{server.url};
  const Result<Address> first = client->claim(urls);
  const Result<Address> second = client->claim(urls);
  ASSERT_OK(first);
  ASSERT_OK(second);
  const Address from_first = introduce(client, *first, server);
  const Address from_second = introduce(client, *second, server);
  EXPECT_NE(from_first, from_second);
  client->disconnect(*second);
  EXPECT_TRUE(client->peer_info(*first).connected) << "it was somebody else's";
  client->release(*first);
  ASSERT_TRUE(drive([&] { return !server->peer_info(from_first).connected; }));
  const Result<Address> again = client->claim(urls);
  ASSERT_OK(again);
  EXPECT_FALSE(client->peer_info(*again).connected);
  EXPECT_NE(introduce(client, *again, server), Address());
}

TEST_P(Bmi, AnAddressThatIsClaimedAgainDoesNotReportFailuresOfEarlierAttempts) {
  Process& client = start(false, impatient());
  const std::array<std::string, 1> urls{world_->dead_url()};
  const Result<Address> first = client->claim(urls);
  ASSERT_OK(first);
  const Bytes data = pattern(1, 0, 10);
  EXPECT_EQ(finish(client, send_unexpected(client, {*first, 1}, data)).status, Errc::kUnreachable);
  client->release(*first);
  const Result<Address> again = client->claim(urls);
  ASSERT_OK(again);
  EXPECT_EQ(client->peer_info(*again).failed.size(), 0U);
  EXPECT_EQ(finish(client, send_unexpected(client, {*again, 1}, data)).status, Errc::kUnreachable);
}

TEST_P(Bmi, TheNextUrlIsTakenWhenTheFirstFails) {
  Process& server = start(true, impatient());
  Process& client = start(false, impatient());
  const std::array<std::string, 2> urls{world_->dead_url(), server.url};
  const Result<Address> address = client->lookup(urls);
  ASSERT_OK(address);
  constexpr std::uint64_t kCount = 20;
  std::vector<Bytes> data;
  std::vector<OpId> ops;
  for (std::uint64_t i = 0; i < kCount; ++i) data.push_back(pattern(i, 0, 100));
  for (std::uint64_t i = 0; i < kCount; ++i) ops.push_back(send_unexpected(client, {*address, i}, data[i]));
  Bytes room(100'000);
  const OpId in = recv(client, {*address, 77}, room);
  ASSERT_TRUE(drive([&] { return server.arrived.size() == kCount; })) << server.arrived.size() << " have arrived";
  for (std::uint64_t i = 0; i < kCount; ++i) EXPECT_EQ(server.arrived[i].tag, Tag{i}) << "out of order";
  for (const OpId op : ops) EXPECT_EQ(finish(client, op).status, Errc::kOk);
  EXPECT_EQ(client->peer_info(*address).url, server.url);
  const Bytes answer = pattern(77, 0, 100'000);
  const OpId out = send(server, {server.arrived[0].peer, 77}, answer);
  EXPECT_EQ(finish(client, in).status, Errc::kOk);
  EXPECT_EQ(first_difference(room, 77, 0), std::nullopt);
  finish(server, out);
}

TEST_P(Bmi, AllUrlsFail) {
  Process& client = start(false, impatient());
  Process& gone = start(true);
  const std::array<std::string, 2> urls{world_->dead_url(), gone.url};
  const Result<Address> address = client->lookup(urls);
  ASSERT_OK(address);
  kill(gone);
  const Bytes data = pattern(1, 0, 10);
  EXPECT_EQ(finish(client, send_unexpected(client, {*address, 1}, data)).status, Errc::kUnreachable);
}

TEST_P(Bmi, DeathOfAPeerFailsWhatIsPosted) {
  const Pair pair = start_pair();
  Bytes room(100);
  const Bytes large = pattern(1, 0, 1'000'000);
  const OpId in = recv(*pair.server, {pair.to_client, 1}, room);
  const OpId out = send(*pair.server, {pair.to_client, 2, MessageClass::kBulk}, large);
  settle();
  EXPECT_FALSE(is_done(*pair.server, in));
  kill(*pair.client);
  EXPECT_EQ(finish(*pair.server, in).status, Errc::kConnectionLost);
  EXPECT_EQ(finish(*pair.server, out).status, Errc::kConnectionLost);
  EXPECT_FALSE((*pair.server)->peer_info(pair.to_client).connected);
  // The peer cannot be connected to. The post may say so, or its completion.
  const std::array<Segment, 1> segments{Segment::of(ByteView(large))};
  const Result<Posted> late =
      (*pair.server)->post_send({pair.to_client, Tag{3}, MessageClass::kBulk, segments}, pair.server->context, nullptr);
  if (!late) {
    EXPECT_ERRC(late, Errc::kConnectionLost);
  } else {
    EXPECT_EQ(finish(*pair.server, late->op).status, Errc::kConnectionLost);
  }
}

TEST_P(Bmi, ARestartedServerIsReachedByTheNextPost) {
  const Pair pair = start_pair();
  Bytes room(100);
  const OpId waiting = recv(*pair.client, {pair.to_server, 1}, room);
  kill(*pair.server);
  EXPECT_EQ(finish(*pair.client, waiting).status, Errc::kConnectionLost);
  EXPECT_FALSE((*pair.client)->peer_info(pair.to_server).connected);
  const std::uint32_t before = (*pair.client)->peer_info(pair.to_server).connection;
  restart(*pair.server);
  const Address again = introduce(*pair.client, pair.to_server, *pair.server);
  EXPECT_EQ((*pair.client)->peer_info(pair.to_server).connection, before + 1);
  expect_passes({pair.client, pair.server, pair.to_server, again}, 5, 200'000);
  expect_passes({pair.client, pair.server, pair.to_server, again}, 6, 200'000, false);
}

TEST_P(Bmi, ADeadServerIsUnreachableUntilItComesBack) {
  const Pair pair = start_pair(impatient());
  kill(*pair.server);
  settle();
  const Bytes data = pattern(1, 0, 10);
  const OpId failed = send_unexpected(*pair.client, {pair.to_server, 1}, data);
  const Errc status = finish(*pair.client, failed).status;
  EXPECT_THAT(status, ::testing::AnyOf(Errc::kUnreachable, Errc::kConnectionLost));
  restart(*pair.server, impatient());
  introduce(*pair.client, pair.to_server, *pair.server);
}

TEST_P(Bmi, DisconnectFailsWhatIsPostedOnBothSides) {
  const Pair pair = start_pair();
  Bytes room(100);
  Bytes other_room(100);
  const OpId here = recv(*pair.client, {pair.to_server, 1}, room);
  const OpId there = recv(*pair.server, {pair.to_client, 1}, other_room);
  const Bytes large = pattern(1, 0, 1'000'000);
  const OpId out = send(*pair.client, {pair.to_server, 2, MessageClass::kBulk}, large);
  settle();
  (*pair.client)->disconnect(pair.to_server);
  EXPECT_EQ(finish(*pair.client, here).status, Errc::kConnectionLost);
  EXPECT_EQ(finish(*pair.client, out).status, Errc::kConnectionLost);
  EXPECT_EQ(finish(*pair.server, there).status, Errc::kConnectionLost);
  EXPECT_FALSE((*pair.client)->peer_info(pair.to_server).connected);
}

// A process that comes back by a new connection is the same peer. Its address stays the same, and its connection count
// tells the difference.
TEST_P(Bmi, AClientThatComesBackKeepsItsAddress) {
  const Pair pair = start_pair();
  const std::uint32_t seen_by_server = (*pair.server)->peer_info(pair.to_client).connection;
  (*pair.client)->disconnect(pair.to_server);
  settle();
  EXPECT_FALSE((*pair.server)->peer_info(pair.to_client).connected);
  const Address again = introduce(*pair.client, pair.to_server, *pair.server);
  EXPECT_EQ(again, pair.to_client);
  EXPECT_EQ((*pair.server)->peer_info(pair.to_client).connection, seen_by_server + 1);
  expect_passes(pair, 3, 100'000);
  expect_passes(pair, 4, 100'000, false);
}

TEST_P(Bmi, AServerMayDisconnectAClientWhichThenComesBack) {
  const Pair pair = start_pair();
  Bytes room(100);
  const OpId waiting = recv(*pair.client, {pair.to_server, 1}, room);
  (*pair.server)->disconnect(pair.to_client);
  EXPECT_EQ(finish(*pair.client, waiting).status, Errc::kConnectionLost);
  EXPECT_EQ(introduce(*pair.client, pair.to_server, *pair.server), pair.to_client);
  expect_passes(pair, 3, 100'000);
}

// A bound address means the peer's present connection. Messages that are posted to it never go to the next connection.
TEST_P(Bmi, ABoundAddressEndsWithItsConnection) {
  const Pair pair = start_pair();
  const Address client_side = (*pair.client)->bound(pair.to_server);
  const Address server_side = (*pair.server)->bound(pair.to_client);
  ASSERT_TRUE(client_side);
  EXPECT_EQ(client_side, (*pair.client)->bound(client_side));
  EXPECT_EQ(Network::unbound(client_side), pair.to_server);
  expect_passes({pair.client, pair.server, client_side, server_side}, 3, 100'000);
  expect_passes({pair.client, pair.server, client_side, server_side}, 4, 100);
  (*pair.client)->disconnect(pair.to_server);
  settle();
  EXPECT_FALSE((*pair.client)->bound(pair.to_server)) << "there is no connection";
  const auto refused = [&] {
    const Bytes data = pattern(1, 0, 10);
    const std::array<Segment, 1> segments{Segment::of(ByteView(data))};
    const Message message{client_side, Tag(9), MessageClass::kControl, segments};
    const auto sent = (*pair.client)->post_send_unexpected(message, pair.client->context, nullptr);
    return !sent && sent.code() == Errc::kConnectionLost;
  };
  EXPECT_TRUE(refused()) << "and none is made";
  introduce(*pair.client, pair.to_server, *pair.server);
  EXPECT_TRUE((*pair.client)->bound(pair.to_server));
  EXPECT_NE((*pair.client)->bound(pair.to_server), client_side);
  EXPECT_TRUE(refused()) << "nor is the new one used";
  (*pair.client)->disconnect(client_side);
  EXPECT_TRUE((*pair.client)->peer_info(pair.to_server).connected) << "the new connection is another one";
}

// A message that arrived before the loss without a receive belongs to the old connection. A new receive does not get
// it.
TEST_P(Bmi, NothingOfALostConnectionIsDeliveredLater) {
  const Pair pair = start_pair();
  const Bytes old = pattern(1, 0, 1000);
  const OpId out = send(*pair.client, {pair.to_server, 1}, old);
  finish(*pair.client, out);
  settle();
  (*pair.client)->disconnect(pair.to_server);
  settle();
  ASSERT_EQ(introduce(*pair.client, pair.to_server, *pair.server), pair.to_client);
  const Bytes fresh = pattern(1, 1, 500);
  Bytes room(1000);
  const OpId in = recv(*pair.server, {pair.to_client, 1}, room);
  const OpId again = send(*pair.client, {pair.to_server, 1}, fresh);
  EXPECT_EQ(finish(*pair.server, in).actual_size, 500U);
  EXPECT_EQ(first_difference({room.data(), 500}, 1, 1), std::nullopt);
  finish(*pair.client, again);
}

TEST_P(Bmi, ManyClientsComeAndGo) {
  Process& server = start(true);
  for (std::uint64_t i = 0; i < 30; ++i) {
    Process& client = start(false);
    const Address to_server = lookup(client, server.url);
    const Address to_client = introduce(client, to_server, server);
    expect_passes({&client, &server, to_server, to_client}, i, 20'000);
    kill(client);
  }
}

TEST_P(Bmi, DisconnectOfAnUnconnectedPeerHasNoEffect) {
  Process& server = start(true);
  Process& client = start(false);
  const Address address = lookup(client, server.url);
  client->disconnect(address);
  introduce(client, address, server);
  EXPECT_EQ(client->peer_info(address).connection, 1U);
}

TEST_P(Bmi, TheSameUrlCannotBeListenedAtTwice) {
  Process& server = start(true);
  const Result<std::string> again = server->listen(server.url, server.context);
  EXPECT_ERRC(again, Errc::kExists);
  Process& client = start(false);
  introduce(client, lookup(client, server.url), server);
}

}  // namespace
}  // namespace spate::bmi::conformance
