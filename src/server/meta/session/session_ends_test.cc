// SPDX-License-Identifier: Apache-2.0
// How sessions end: nothing of a session passes to others before the session is fenced, and an end survives a restart.
#include <gmock/gmock.h>

#include <optional>

#include "base/expect.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

class MetaSessionEnds : public RoleTest {
 protected:
  /// Waits until the leases of all silent clients have expired and the server has noticed.
  void let_leases_run_out() { wait(options.session_lease + options.session_lease / 2); }
  SessionRecord session(const TestClient& client) { return record<SessionRecord>(session_key(client.id)).value(); }
};

TEST_F(MetaSessionEnds, NothingIsReleasedBeforeEveryServerHasFenced) {
  TestClient client = connect();
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 700));
  TestClient other = connect(root_user());
  ASSERT_OK(unlink(other, "f"));
  const Handle kept = create(client, "g", wire::kOpenWrite)->object.attributes.handle;
  bool down = true;
  io.fail = [&down](std::string_view call) {
    return down && call.starts_with("fence") ? Errc::kUnreachable : Errc::kOk;
  };
  wait_alive(other, options.session_lease * 2);
  EXPECT_GT(io.calls("fence"), 3U);
  EXPECT_EQ(inode(handle).write_opens, 1U);
  EXPECT_EQ(inode(kept).write_opens, 1U);
  EXPECT_EQ(records(KeyKind::kOpen), 2U);
  EXPECT_EQ(io.calls("remove"), 0U);
  ASSERT_TRUE(write(client, kept, 900));  // a late write, at a server that does not know the fence yet

  down = false;
  wait(seconds(10));
  EXPECT_EQ(records(KeyKind::kOpen), 0U);
  EXPECT_FALSE(write(client, kept, 1000));
  EXPECT_TRUE(is_removed(io.files[handle]));
  const Attributes attributes = inode(kept).attributes;
  EXPECT_TRUE(knows_size(attributes));
  EXPECT_EQ(attributes.size, 900U);
  EXPECT_EQ(attributes.mtime, data_of(kept).mtime);
}

TEST_F(MetaSessionEnds, TheEndOfAWriterGivesTheRightSize) {
  TestClient dead = connect();
  TestClient living = connect();
  const Handle handle = create(dead, "f", wire::kOpenRead | wire::kOpenWrite)->object.attributes.handle;
  ASSERT_OK(open_file(living, "f", wire::kOpenRead));
  ASSERT_TRUE(write(dead, handle, 12345));
  EXPECT_FALSE(knows_size(*stat(living, "f")));
  wait_alive(living, options.session_lease * 2);
  const auto attributes = stat(living, "f");
  ASSERT_OK(attributes);
  EXPECT_TRUE(knows_size(*attributes));
  EXPECT_EQ(attributes->size, 12345U);
  EXPECT_EQ(records(KeyKind::kOpen), 1U);
}

TEST_F(MetaSessionEnds, AnEndReleasesEverythingAndErasesTheSession) {
  TestClient client = connect();
  TestClient other = connect();
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 10));
  ASSERT_OK(asked<wire::Empty>(client, wire::EndSessionRequest(), no_id()));
  run_ready();
  EXPECT_EQ(io.fences[client.id], 2U);
  EXPECT_EQ(inode(handle).attributes.size, 10U);
  EXPECT_EQ(records(KeyKind::kSession), 1U);
  EXPECT_EQ(records(KeyKind::kOpen), 0U);
  EXPECT_ERRC(asked<wire::Empty>(client, wire::EndSessionRequest(), no_id()), Errc::kSessionUnknown);
  EXPECT_ERRC(join(client), Errc::kSessionUnknown);
  EXPECT_OK(keep_alive(other));
}

TEST_F(MetaSessionEnds, AnEndWithNothingOpenAsksNoIoServer) {
  TestClient client = connect();
  const Handle handle = make_file(client, "f", 10);
  ASSERT_OK(asked<wire::Empty>(client, wire::EndSessionRequest(), no_id()));
  run_ready();
  EXPECT_THAT(io.log, testing::IsEmpty());
  EXPECT_EQ(records(KeyKind::kSession), 0U);
  EXPECT_EQ(inode(handle).write_opens, 0U);
}

TEST_F(MetaSessionEnds, AnOpenUnderWayAtTheEndIsNotForgotten) {
  // Opens overlap the end of their session in many orders: everything that was opened is released.
  for (std::uint64_t round = 0; round < 50; ++round) {
    TestClient client = connect();
    const std::string path = "f" + std::to_string(round);
    make_file(client, path, 5);
    int conflicts = static_cast<int>(round % 3);
    store.on_commit = [&conflicts] { return conflicts-- > 0 ? Errc::kConflict : Errc::kOk; };
    const auto opening = begin<wire::OpenReply>(client, open_request(path, wire::kOpenWrite), no_id());
    const auto ending = begin<wire::Empty>(client, wire::EndSessionRequest(), no_id());
    wait(seconds(1));
    store.on_commit = {};
    ASSERT_OK(ending->result);
    EXPECT_EQ(records(KeyKind::kOpen), 0U);
    EXPECT_EQ(records(KeyKind::kSession), 0U);
  }
}

TEST_F(MetaSessionEnds, AnEndIsFinishedAfterARestart) {
  TestClient client = connect();
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 10));
  io.fail = [](std::string_view call) { return call.starts_with("fence") ? Errc::kUnreachable : Errc::kOk; };
  ASSERT_OK(asked<wire::Empty>(client, wire::EndSessionRequest(), no_id()));
  run_ready();
  restart();
  EXPECT_EQ(inode(handle).write_opens, 1U);
  EXPECT_ERRC(join(client), Errc::kSessionUnknown);
  io.fail = {};
  wait(seconds(10));
  EXPECT_EQ(inode(handle).attributes.size, 10U);
  EXPECT_TRUE(knows_size(inode(handle).attributes));
  EXPECT_EQ(records(KeyKind::kSession), 0U);
}

TEST_F(MetaSessionEnds, AnExpiryIsFinishedAfterARestart) {
  TestClient client = connect();
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 10));
  io.fail = [](std::string_view call) { return call.starts_with("fence") ? Errc::kUnreachable : Errc::kOk; };
  let_leases_run_out();
  restart();
  io.fail = {};
  wait(seconds(10));
  EXPECT_EQ(io.fences[client.id], 2U);
  EXPECT_TRUE(knows_size(inode(handle).attributes));
  EXPECT_EQ(session(client).state, SessionState::kExpired);
  ASSERT_OK(join(client));
  EXPECT_EQ(client.epoch, 2U);
}

TEST_F(MetaSessionEnds, TheEpochIsDurableBeforeTheFence) {
  TestClient client = connect();
  std::optional<std::size_t> syncs_at_fence;
  std::uint32_t stored_at_fence = 0;
  std::size_t syncs_at_commit = 0;  // at the last commit before the fence, which stores the epoch
  store.on_commit = [&] {
    if (!syncs_at_fence) syncs_at_commit = store.syncs;
    return Errc::kOk;
  };
  io.fail = [&](std::string_view call) {
    if (!call.starts_with("fence")) return Errc::kOk;
    syncs_at_fence = store.syncs;
    stored_at_fence = session(client).epoch;
    return Errc::kOk;
  };
  let_leases_run_out();
  ASSERT_NE(syncs_at_fence, std::nullopt);
  EXPECT_GT(*syncs_at_fence, syncs_at_commit);
  EXPECT_EQ(stored_at_fence, 2U);
}

TEST_F(MetaSessionEnds, AFailingStoreOnlyDelaysTheEnd) {
  TestClient client = connect();
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 10));
  store.on_commit = [] { return Errc::kIoError; };
  let_leases_run_out();
  EXPECT_EQ(io.calls("fence"), 0U);
  EXPECT_ERRC(stat(client, "f"), Errc::kSessionFenced);
  store.on_commit = {};
  wait(seconds(20));
  EXPECT_EQ(inode(handle).attributes.size, 10U);
  EXPECT_EQ(session(client).epoch, 2U);
}

}  // namespace
}  // namespace spate::meta
