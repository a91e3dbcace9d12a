// SPDX-License-Identifier: Apache-2.0
// Sessions: opened, resumed, expired, resumed later. session_ends_test.cc has their ends.
#include <gmock/gmock.h>

#include <optional>

#include "base/expect.h"
#include "server/meta/testing/role_test.h"
#include "wire/cluster_messages.h"

namespace spate::meta {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class MetaSessions : public RoleTest {
 protected:
  /// Waits until the leases of all silent clients have expired and the server has noticed.
  void let_leases_run_out() { wait(options.session_lease + options.session_lease / 2); }
  SessionRecord session(const TestClient& client) { return record<SessionRecord>(session_key(client.id)).value(); }
};

TEST_F(MetaSessions, ClientIdsAreNeverUsedTwice) {
  std::set<ClientId> seen;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(seen.insert(connect().id).second) << "round " << round << ", session " << i;
    restart();
  }
  EXPECT_THAT(seen, testing::Not(testing::Contains(ClientId(0))));
}

TEST_F(MetaSessions, TicketsAreGenuineAndOutliveTheLease) {
  TestClient client = connect();
  ASSERT_NE(client.ticket, std::nullopt);
  EXPECT_TRUE(verify(options.server_key, options.fs, *client.ticket)) << "the ticket has another code";
  EXPECT_EQ(client.ticket->client, client.id);
  EXPECT_EQ(client.ticket->epoch, 1U);
  EXPECT_EQ(client.ticket->uid, kAlice);
  const WallTime first = client.ticket->expiry;
  EXPECT_GT(first.ns - clock.wall().ns, 10 * options.session_lease.count());
  wait(seconds(10));
  ASSERT_OK(keep_alive(client));
  EXPECT_GT(client.ticket->expiry.ns, first.ns);
  EXPECT_TRUE(verify(options.server_key, options.fs, *client.ticket)) << "the ticket has another code";
}

TEST_F(MetaSessions, AreResumedByTicketOrByUser) {
  TestClient client = connect();
  const TestClient before = client;
  ASSERT_OK(join(client));
  EXPECT_EQ(client.id, before.id);
  EXPECT_EQ(client.epoch, before.epoch);
  client.ticket.reset();
  ASSERT_OK(join(client));
  EXPECT_EQ(client.id, before.id);
  EXPECT_EQ(records(KeyKind::kSession), 1U);
}

TEST_F(MetaSessions, AreNotResumedByOthers) {
  TestClient client = connect();
  TestClient other = connect(bob());
  TestClient thief = client;
  thief.who = bob();
  EXPECT_ERRC(join(thief), Errc::kUnauthenticated);
  thief = client;
  thief.ticket = other.ticket;
  EXPECT_ERRC(join(thief), Errc::kUnauthenticated);
  thief = client;
  thief.ticket->epoch = 9;
  EXPECT_ERRC(join(thief), Errc::kUnauthenticated);
  thief = client;
  thief.id = ClientId(client.id.value + 1000);
  thief.ticket.reset();
  EXPECT_ERRC(join(thief), Errc::kSessionUnknown);
}

TEST_F(MetaSessions, ARequestWithoutASessionOrWithAnOldEpochIsRefused) {
  TestClient client = connect();
  TestClient nobody;
  EXPECT_ERRC(stat(nobody, "x"), Errc::kSessionUnknown);
  TestClient future = client;
  ++future.epoch;
  EXPECT_ERRC(stat(future, "x"), Errc::kSessionFenced);
  EXPECT_ERRC(stat(client, "x"), Errc::kNotFound);
}

TEST_F(MetaSessions, StayOpenAsLongAsRequestsArrive) {
  TestClient client = connect();
  for (int i = 0; i < 20; ++i) {
    wait(options.session_lease * 3 / 4);
    if (i % 2 == 0) {
      ASSERT_OK(keep_alive(client));
    } else {
      ASSERT_ERRC(stat(client, "x"), Errc::kNotFound);
    }
  }
  EXPECT_EQ(client.epoch, 1U);
}

TEST_F(MetaSessions, SilenceEndsTheEpoch) {
  TestClient client = connect();
  let_leases_run_out();
  EXPECT_ERRC(stat(client, "x"), Errc::kSessionFenced);
  EXPECT_EQ(io.fences[client.id], 2U);
  const std::uint64_t id_before = client.id.value;
  ASSERT_OK(join(client));
  EXPECT_EQ(client.id.value, id_before);
  EXPECT_EQ(client.epoch, 2U);
  EXPECT_EQ(client.ticket->epoch, 2U);
  EXPECT_ERRC(stat(client, "x"), Errc::kNotFound);
  let_leases_run_out();
  ASSERT_OK(join(client));
  EXPECT_EQ(client.epoch, 3U);
  EXPECT_EQ(io.fences[client.id], 3U);
  EXPECT_EQ(session(client).released_epoch, 3U);
}

TEST_F(MetaSessions, AnswersOutliveTheSilence) {
  TestClient client = connect();
  wire::MkdirRequest request;
  request.where = at("d");
  ASSERT_OK(asked<wire::ObjectReply>(client, request, id(1)));
  let_leases_run_out();
  EXPECT_ERRC(asked<wire::ObjectReply>(client, request, id(1)), Errc::kSessionFenced);
  ASSERT_OK(join(client));
  EXPECT_OK(asked<wire::ObjectReply>(client, request, id(1)));
}

TEST_F(MetaSessions, ARestartGivesEveryoneANewLease) {
  TestClient client = connect();
  wait(options.session_lease * 3 / 4);
  restart();
  wait(options.session_lease * 3 / 4);
  EXPECT_ERRC(stat(client, "x"), Errc::kNotFound);
  EXPECT_EQ(io.calls("fence"), 0U);
}

TEST_F(MetaSessions, AClientThatReturnsDuringItsFenceIsServedAtOnce) {
  TestClient client = connect();
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 10));
  bool down = true;
  io.fail = [&down](std::string_view call) {
    return down && call.starts_with("fence") ? Errc::kUnreachable : Errc::kOk;
  };
  let_leases_run_out();
  ASSERT_OK(join(client));
  EXPECT_EQ(client.epoch, 2U);
  EXPECT_ERRC(close_file(client, handle, Rights::kWrite), Errc::kBadDescriptor);  // the open belonged to the old epoch
  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  EXPECT_EQ(inode(handle).write_opens, 2U);
  EXPECT_EQ(inode(handle).writers, 2U);
  down = false;
  wait_alive(client, seconds(15));
  EXPECT_EQ(inode(handle).write_opens, 1U);
  ASSERT_TRUE(write(client, handle, 20));
  ASSERT_OK(close_file(client, handle, Rights::kWrite));
  run_ready();
  EXPECT_EQ(inode(handle).attributes.size, 20U);
}

TEST_F(MetaSessions, ExpiredSessionsAreErasedInTheEnd) {
  TestClient client = connect();
  wire::MkdirRequest request;
  request.where = at("d");
  ASSERT_OK(asked<wire::ObjectReply>(client, request, id(1)));
  wait(hours(12));
  EXPECT_EQ(records(KeyKind::kSession), 1U);
  wait(hours(13));
  EXPECT_EQ(records(KeyKind::kSession), 0U);
  EXPECT_EQ(records(KeyKind::kAnswer), 0U);
  EXPECT_ERRC(join(client), Errc::kSessionUnknown);
}

TEST_F(MetaSessions, AboveTheLimitTheLongestExpiredSessionsAreErased) {
  crash();
  options.max_sessions = 40;
  open();
  TestClient first = connect();
  TestClient last;
  TestClient living = connect();
  for (int i = 0; i < 200; ++i) {
    last = connect();
    for (int beat = 0; beat < 8; ++beat) {
      wait(seconds(1));
      ASSERT_OK(keep_alive(living));
    }
  }
  EXPECT_LE(records(KeyKind::kSession), 40U);
  EXPECT_ERRC(join(first), Errc::kSessionUnknown);
  EXPECT_OK(join(last));
  EXPECT_EQ(living.epoch, 1U);
}

TEST_F(MetaSessions, TheNumberOfOpenSessionsIsLimited) {
  crash();
  options.max_sessions = 10;
  open();
  std::vector<TestClient> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(connect());
  TestClient more;
  more.who = alice();
  EXPECT_ERRC(join(more), Errc::kBusy);
  ASSERT_OK(asked<wire::Empty>(clients[3], wire::EndSessionRequest(), no_id()));
  run_ready();
  EXPECT_OK(join(more));
}

TEST_F(MetaSessions, AServerThatWasStoppedExpiresNoSession) {
  TestClient client = connect();
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  clock.advance(options.session_lease * 10);
  run_ready();
  EXPECT_OK(close_file(client, handle, Rights::kWrite));
  EXPECT_EQ(io.calls("fence"), 0U);
  let_leases_run_out();
  EXPECT_ERRC(stat(client, "f"), Errc::kSessionFenced);
}

TEST_F(MetaSessions, ServersNeedNoSession) {
  rpc::Call call;
  call.peer = std::make_shared<rpc::Peer>();
  call.peer->kind = wire::PeerKind::kServer;
  call.peer->credential = root_user();
  Bytes body;
  wire::encode_body(wire::LookupRequest(), body);
  EXPECT_OK(run(role->service().operations().at(wire::Op::kLookup).handler(call, body)));
  body.clear();
  wire::CreateRequest request;
  request.where = at("f");
  request.open_flags = wire::kOpenWrite;
  wire::encode_body(request, body);
  EXPECT_ERRC(run(role->service().operations().at(wire::Op::kCreate).handler(call, body)), Errc::kSessionUnknown);
}

TEST_F(MetaSessions, AreCountedWhileTheyAreOpen) {
  TestClient client = connect();
  TestClient other = connect();
  const auto count = [this, &other] {
    return asked<wire::MetaStatfsReply>(other, wire::MetaStatfsRequest(), no_id())->sessions;
  };
  EXPECT_EQ(count(), 2U);
  wait_alive(other, options.session_lease * 2);
  EXPECT_EQ(count(), 1U);
  ASSERT_OK(join(client));
  EXPECT_EQ(count(), 2U);
  ASSERT_OK(asked<wire::Empty>(client, wire::EndSessionRequest(), no_id()));
  EXPECT_EQ(count(), 1U);
}

}  // namespace
}  // namespace spate::meta
