// SPDX-License-Identifier: Apache-2.0
// Attribute leases: for whom a change waits, and for how long, also after a restart of the server.
#include <optional>

#include "server/meta/leases/leases_test.h"

namespace spate::meta {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(MetaLeases, AChangeWaitsForASilentHolderUntilItsLeaseExpires) {
  Keeping a = keeping();
  TestClient b = connect();
  const Handle f = make_file(b, "f", 10);
  make_file(b, "g", 10);
  keep(a, "f");
  keep(a, "g");
  wait(lease() / 2);
  auto change = begin_chmod(b, "f");
  wait(lease() / 2 - seconds(1));
  EXPECT_EQ(change->result, std::nullopt);
  EXPECT_EQ(inode(f).attributes.mode, 0644U);
  wait(seconds(2));
  ASSERT_OK(change->result);
  auto next = begin_chmod(b, "g");  // the silent client's leases have expired
  EXPECT_OK(next->result);
}

TEST_F(MetaLeases, AHolderThatDropsNothingDelaysAChangeForOneLeaseOnly) {
  Keeping a = keeping();
  TestClient b = connect();
  make_file(b, "f", 10);
  keep(a, "f");
  auto change = begin_chmod(b, "f");
  for (int i = 0; i < 9; ++i) {
    wait(lease() / 10);
    (void)asked<wire::SessionEventsReply>(a.client, wire::SessionEventsRequest{a.table, 0, 0}, no_id());
    EXPECT_EQ(change->result, std::nullopt);
  }
  wait(lease() / 5);
  EXPECT_OK(change->result);
}

TEST_F(MetaLeases, AChangeThatCannotWaitSoLongIsNotMade) {
  Keeping a = keeping();
  TestClient b = connect();
  const Handle file = make_file(b, "f", 10);
  keep(a, "f");
  auto change = begin_chmod(b, "f", 0600, seconds(2));
  wait(seconds(3));
  ASSERT_NE(change->result, std::nullopt);
  EXPECT_ERRC(*change->result, Errc::kTimeout);
  EXPECT_EQ(inode(file).attributes.mode, 0644U);
  drop_what_is_recalled(a);
  EXPECT_TRUE(is_granted(*look(a, "f")));  // the object is not "being changed" for ever
}

TEST_F(MetaLeases, ChangesByTheServerItselfRecallLeasesToo) {
  Keeping a = keeping();
  TestClient b = connect();
  const auto made = create(b, "f", wire::kOpenWrite);
  ASSERT_OK(made);
  const Handle file = made->object.attributes.handle;
  ASSERT_TRUE(write(b, file, 77));
  keep(a, "f");
  auto closed = begin<wire::ObjectReply>(b, close_request(file, Rights::kWrite), id(++b.next), seconds(60));
  drop_what_is_recalled(a);
  run_ready();
  ASSERT_OK(closed->result);
  // Intent recovery asks the datafiles for the size in the background.
  for (int i = 0; i < 50 && !inode(file).attributes.size_known; ++i) {
    drop_what_is_recalled(a);
    wait(milliseconds(100));
  }
  const auto seen = look(a, "f");
  ASSERT_OK(seen);
  ASSERT_NE(seen->object, std::nullopt);
  EXPECT_TRUE(knows_size(seen->object->attributes));
  EXPECT_EQ(seen->object->attributes.size, 77U);
}

TEST_F(MetaLeases, AfterARestartChangesWaitUntilEveryHolderKnowsOfTheRestart) {
  Keeping a = keeping();
  TestClient b = connect();
  const Handle file = make_file(b, "f", 10);
  keep(a, "f");
  restart();
  auto change = begin_chmod(b, "f");
  run_ready();
  EXPECT_EQ(change->result, std::nullopt);
  EXPECT_EQ(inode(file).attributes.mode, 0644U);
  (void)events(a);  // names the old table: the client learns of the new one and drops everything
  run_ready();
  EXPECT_EQ(change->result, std::nullopt);
  (void)events(a);
  run_ready();
  EXPECT_OK(change->result);
}

TEST_F(MetaLeases, AfterARestartAHolderDoesNotWaitForItself) {
  Keeping a = keeping();
  make_file(a.client, "f", 10);
  keep(a, "f");
  restart();
  auto change = begin_chmod(a.client, "f");
  EXPECT_OK(change->result);
}

TEST_F(MetaLeases, AfterARestartAHolderThatIsGoneIsWaitedForOneLease) {
  Keeping a = keeping();
  TestClient b = connect();
  make_file(b, "f", 10);
  keep(a, "f");
  wait(seconds(1));
  restart();
  auto change = begin_chmod(b, "f");
  wait(lease() - seconds(1));
  EXPECT_EQ(change->result, std::nullopt);
  wait(seconds(2));
  EXPECT_OK(change->result);
}

TEST_F(MetaLeases, WithoutHoldersARestartDelaysNothing) {
  Keeping a = keeping();
  TestClient b = connect();
  make_file(b, "f", 10);
  keep(a, "f");
  EXPECT_OK(asked<wire::Empty>(a.client, wire::EndSessionRequest(), no_id()));
  wait(seconds(1));
  restart();
  auto change = begin_chmod(b, "f");
  EXPECT_OK(change->result);
}

}  // namespace
}  // namespace spate::meta
