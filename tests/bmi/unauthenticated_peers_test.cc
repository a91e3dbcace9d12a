// SPDX-License-Identifier: Apache-2.0
// A process that connects to a server is unauthenticated until it is admitted (NetworkOptions::unauthenticated).
#include "tests/bmi/harness.h"

namespace spate::bmi::conformance {
namespace {

NetworkOptions wary(std::uint32_t deadline_ms) {
  NetworkOptions options;
  options.unauthenticated.deadline_ms = deadline_ms;
  return options;
}

constexpr std::uint32_t kSoon = 300;
constexpr std::uint32_t kNever = 3'600'000;

TEST_P(Bmi, AnUnauthenticatedPeerIsDroppedAtTheDeadlineAndAnAdmittedPeerStays) {
  Process& server = start(true, wary(kSoon));
  Process& member = start(false);
  Process& unauthenticated = start(false);
  const Address from_member = lookup(member, server.url);
  const Address from_unauthenticated = lookup(unauthenticated, server.url);
  server->admit(introduce(member, from_member, server));
  introduce(unauthenticated, from_unauthenticated, server);
  ASSERT_TRUE(drive([&] { return !unauthenticated->peer_info(from_unauthenticated).connected; }));
  EXPECT_TRUE(member->peer_info(from_member).connected);
}

TEST_P(Bmi, AnUnauthenticatedPeerIsBufferedUpToItsLimitAndAnAdmittedPeerBeyondIt) {
  Process& server = start(true, wary(kNever));
  Process& client = start(false);
  const Address to_server = lookup(client, server.url);
  const Address unauthenticated = introduce(client, to_server, server);
  const Bytes data(10'000);
  EXPECT_EQ(finish(client, send(client, {to_server, 1}, data)).status, Errc::kOk);
  EXPECT_EQ(introduce(client, to_server, server), unauthenticated) << "within its share";
  send(client, {to_server, 2}, data);
  ASSERT_TRUE(drive([&] { return !client->peer_info(to_server).connected; }));

  const Address member = introduce(client, to_server, server);
  EXPECT_NE(unauthenticated, member) << "an unauthenticated peer that comes back is another one";
  server->admit(member);
  for (std::uint64_t tag = 3; tag < 6; ++tag) send(client, {to_server, tag}, data);
  EXPECT_EQ(introduce(client, to_server, server), member);
  Bytes room(data.size());
  for (std::uint64_t tag = 3; tag < 6; ++tag) {
    EXPECT_EQ(finish(server, recv(server, {member, tag}, room)).status, Errc::kOk);
  }
}

TEST_P(Bmi, UnauthenticatedPeersOfOneSourceAreLimitedInNumber) {
  NetworkOptions options = wary(kNever);
  options.unauthenticated.most_of_a_source = 2;
  options.unauthenticated.most = 2;  // each peer of the world is a source of its own
  Process& server = start(true, options);
  Process& member = start(false);
  const Address from_member = lookup(member, server.url);
  server->admit(introduce(member, from_member, server));
  std::vector<std::pair<Process*, Address>> unauthenticated_peers;
  for (int i = 0; i < 4; ++i) {
    Process& peer = start(false);
    unauthenticated_peers.emplace_back(&peer, lookup(peer, server.url));
    introduce(peer, unauthenticated_peers.back().second, server);
  }
  const auto connected = [&] {
    std::size_t n = 0;
    for (const auto& [peer, address] : unauthenticated_peers) n += (*peer)->peer_info(address).connected ? 1 : 0;
    return n;
  };
  ASSERT_TRUE(drive([&] { return connected() == 2; })) << connected() << " unauthenticated peers are connected";
  EXPECT_TRUE((*unauthenticated_peers.back().first)->peer_info(unauthenticated_peers.back().second).connected)
      << "the newest is kept";
  EXPECT_TRUE(member->peer_info(from_member).connected);
}

TEST_P(Bmi, AnAdmittedPeerThatComesBackIsAnUnauthenticatedPeerUntilItIsAdmittedAgain) {
  Process& server = start(true, wary(kNever));
  Process& client = start(false);
  const Address to_server = lookup(client, server.url);
  const Address before = introduce(client, to_server, server);
  server->admit(before);
  client->disconnect(to_server);
  const Address after = introduce(client, to_server, server);
  EXPECT_NE(before, after);
  const Bytes data(10'000);
  for (std::uint64_t tag = 1; tag < 3; ++tag) send(client, {to_server, tag}, data);
  ASSERT_TRUE(drive([&] { return !client->peer_info(to_server).connected; }));
  const Address again = introduce(client, to_server, server);
  server->admit(again);
  expect_passes({&client, &server, to_server, again}, 7, 100'000);
}

}  // namespace
}  // namespace spate::bmi::conformance
