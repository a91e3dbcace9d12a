// SPDX-License-Identifier: Apache-2.0
// Attribute leases: who gets one, and what recalls it.
#include "server/meta/leases/leases_test.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "base/expect.h"
#include "wire/xattr_messages.h"

namespace spate::meta {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(MetaLeases, ALookupReturnsEachStepAndTheObject) {
  Keeping a = keeping();
  wire::MkdirRequest mkdir;
  mkdir.where = at("d");
  mkdir.attributes.mode = 0755;
  const auto made = asked<wire::ObjectReply>(a.client, mkdir);
  ASSERT_OK(made);
  const Handle file = make_file(a.client, "d/f", 10);
  const auto found = look(a, "d/f");
  ASSERT_OK(found);
  ASSERT_NE(found->object, std::nullopt);
  EXPECT_TRUE(is_granted(*found));
  EXPECT_EQ(found->object->attributes.handle, file);
  EXPECT_EQ(found->object->attributes.size, 10U);
  ASSERT_EQ(found->steps.size(), 2U);
  EXPECT_EQ(found->steps[0].directory, kRootHandle);
  EXPECT_EQ(found->steps[0].name, "d");
  EXPECT_EQ(found->steps[0].object, made->attributes.handle);
  EXPECT_EQ(found->steps[0].type, FileType::kDirectory);
  EXPECT_EQ(found->steps[1].object, file);
  EXPECT_EQ(milliseconds(found->lease_ms), lease());
  const auto nothing = look(a, "d/g");
  ASSERT_OK(nothing);
  EXPECT_TRUE(is_granted(*nothing));
  EXPECT_EQ(nothing->object, std::nullopt);
  EXPECT_EQ(nothing->steps.back().object, Handle());
  EXPECT_ERRC(look(a, "d/f/g"), Errc::kNotDirectory);  // this error grants no lease
}

TEST_F(MetaLeases, AChangeWaitsForTheHolderAndIsSeenThen) {
  Keeping a = keeping();
  TestClient b = connect();
  const Handle file = make_file(b, "f", 10);
  EXPECT_EQ(keep(a, "f"), file);
  auto change = begin_chmod(b, "f", 0640);
  EXPECT_EQ(change->result, std::nullopt);
  EXPECT_EQ(inode(file).attributes.mode, 0644U);  // the change waits until the holder has dropped its copy
  EXPECT_EQ(events(a), std::vector<Handle>{file});
  EXPECT_EQ(change->result, std::nullopt);
  EXPECT_FALSE(is_granted(*look(a, "f")));     // no grant between recall and commit
  EXPECT_THAT(events(a), testing::IsEmpty());  // this acknowledges
  run_ready();
  ASSERT_OK(change->result);
  const auto again = look(a, "f");
  ASSERT_OK(again);
  ASSERT_TRUE(is_granted(*again));
  EXPECT_EQ(again->object->attributes.mode, 0640U);
}

TEST_F(MetaLeases, GrantsAndRecallsAreCounted) {
  Keeping a = keeping();
  TestClient b = connect();
  make_file(b, "f", 10);
  make_file(b, "g", 10);
  EXPECT_EQ(counted("leases_held"), 0);
  keep(a, "f");
  keep(a, "g");
  EXPECT_EQ(counted("leases_held"), 3);  // two files and the directory
  EXPECT_EQ(counted("leases_granted_total"), 2);
  EXPECT_EQ(changes_that_waited().count(), 0U);
  auto answered = begin_chmod(b, "f");
  wait(milliseconds(20));
  drop_what_is_recalled(a);
  run_ready();
  ASSERT_OK(answered->result);
  EXPECT_EQ(counted("leases_held"), 2);
  EXPECT_EQ(counted("leases_recalled_total"), 1);
  EXPECT_EQ(counted("leases_given_back_total"), 1);
  EXPECT_EQ(counted("leases_run_out_total"), 0);
  EXPECT_EQ(changes_that_waited().count(), 1U);
  EXPECT_EQ(changes_that_waited().sum, 20'000'000U);
  auto unanswered = begin_chmod(b, "g");
  wait(2 * lease());
  ASSERT_OK(unanswered->result);
  EXPECT_EQ(counted("leases_held"), 0);
  EXPECT_EQ(counted("leases_given_back_total"), 1);
  EXPECT_EQ(counted("leases_run_out_total"), 1);
  EXPECT_EQ(changes_that_waited().count(), 2U);
  begin_chmod(b, "g");  // it waits for nobody
  EXPECT_EQ(changes_that_waited().count(), 2U);
}

TEST_F(MetaLeases, EveryKindOfChangeRecallsTheObjectsItTouches) {
  TestClient b = connect();
  const auto where = [](std::string path) { return at(std::move(path)); };
  wire::MkdirRequest mkdir;
  mkdir.where = where("d");
  mkdir.attributes.mode = 0755;
  ASSERT_OK(asked<wire::ObjectReply>(b, mkdir));
  mkdir.where = where("e");
  ASSERT_OK(asked<wire::ObjectReply>(b, mkdir));

  const auto recalls = [&](std::string_view what, std::vector<std::string> kept, auto request, auto reply_type) {
    using Reply = typename decltype(reply_type)::type;
    Keeping a = keeping();
    std::vector<Handle> handles;
    for (const std::string& path : kept) handles.push_back(keep(a, path));
    drop_what_is_recalled(a);
    auto change = begin<Reply>(b, std::move(request), id(++b.next), seconds(60));
    EXPECT_EQ(change->result, std::nullopt) << what << " did not wait";
    std::vector<Handle> told = events(a);
    for (const Handle handle : handles) {
      EXPECT_NE(std::find(told.begin(), told.end(), handle), told.end()) << what << " left " << handle.value;
    }
    drop_what_is_recalled(a);
    // Intent recovery carries the truncation out, which is another change.
    for (int i = 0; i < 20 && !change->result; ++i) {
      wait(milliseconds(100));
      drop_what_is_recalled(a);
    }
    EXPECT_OK(change->result) << what;
    EXPECT_OK(asked<wire::Empty>(a.client, wire::EndSessionRequest(), no_id()));
    return change->result && *change->result;
  };
  const auto object = std::type_identity<wire::ObjectReply>();
  const auto opened = std::type_identity<wire::OpenReply>();
  const auto empty = std::type_identity<wire::Empty>();

  wire::CreateRequest create;
  create.where = where("d/f");
  create.attributes.mode = 0644;
  create.open_flags = wire::kOpenWrite;
  EXPECT_TRUE(recalls("create", {"d"}, create, opened));
  const Handle file = stat(b, "d/f")->handle;
  ASSERT_TRUE(write(b, file, 100));
  EXPECT_TRUE(recalls("close of a writer", {"d/f"}, close_request(file, Rights::kWrite), object));
  EXPECT_TRUE(recalls("open for writing", {"d/f"}, open_request("d/f", wire::kOpenWrite), opened));
  EXPECT_OK(close_file(b, file, Rights::kWrite, data_of(file)));
  EXPECT_TRUE(recalls("truncate", {"d/f"}, truncate_request("d/f", 5), object));
  wire::SetattrRequest chown;
  chown.where = where("d/f");
  chown.mtime_now = true;
  EXPECT_TRUE(recalls("utimes", {"d/f"}, chown, object));
  wire::SetxattrRequest setxattr;
  setxattr.where = where("d/f");
  setxattr.name = "user.a";
  EXPECT_TRUE(recalls("setxattr", {"d/f"}, setxattr, empty));
  wire::RemovexattrRequest removexattr;
  removexattr.where = where("d/f");
  removexattr.name = "user.a";
  EXPECT_TRUE(recalls("removexattr", {"d/f"}, removexattr, empty));
  wire::LinkRequest link;
  link.existing = where("d/f");
  link.where = where("e/g");
  EXPECT_TRUE(recalls("link", {"d/f", "e"}, link, object));
  wire::SymlinkRequest symlink;
  symlink.where = where("e/s");
  symlink.target = "x";
  EXPECT_TRUE(recalls("symlink", {"e"}, symlink, object));
  wire::RenameRequest rename;
  rename.from = where("e/s");
  rename.to = where("d/g");
  EXPECT_TRUE(recalls("rename", {"e/s", "e", "d"}, rename, empty));
  rename.from = where("d/g");
  rename.to = where("e/g");
  EXPECT_TRUE(recalls("rename over another", {"e/g", "d/f", "d/g"}, rename, empty));
  wire::UnlinkRequest unlink;
  unlink.where = where("d/f");
  EXPECT_TRUE(recalls("unlink", {"d/f", "d"}, unlink, object));
  wire::MkdirRequest below;
  below.where = where("d/x");
  below.attributes.mode = 0755;
  EXPECT_TRUE(recalls("mkdir", {"d"}, below, object));
  wire::RmdirRequest rmdir;
  rmdir.where = where("d/x");
  EXPECT_TRUE(recalls("rmdir", {"d", "d/x"}, rmdir, empty));
}

TEST_F(MetaLeases, ANameThatIsNotThereIsRecalledWithItsDirectory) {
  Keeping a = keeping();
  TestClient b = connect();
  ASSERT_TRUE(is_granted(*look(a, "f")));
  auto made = begin<wire::OpenReply>(
      b,
      [] {
        wire::CreateRequest request;
        request.where = at("f");
        request.open_flags = wire::kOpenWrite;
        return request;
      }(),
      id(++b.next), seconds(60));
  EXPECT_EQ(made->result, std::nullopt);
  drop_what_is_recalled(a);
  run_ready();
  EXPECT_OK(made->result);
}

TEST_F(MetaLeases, AClientDoesNotWaitForItsOwnLeases) {
  Keeping a = keeping();
  const Handle file = make_file(a.client, "f", 10);
  EXPECT_EQ(keep(a, "f"), file);
  auto change = begin_chmod(a.client, "f", 0600);
  EXPECT_OK(change->result);
  EXPECT_THAT(events(a), testing::IsEmpty());
}

TEST_F(MetaLeases, AChangeFromBeforeTheLastHandshakeRecallsItsOwnClientsLeases) {
  // The client no longer waits for this change, and may have forgotten what it touches.
  Keeping a = keeping();
  const Handle file = make_file(a.client, "f", 10);
  TestClient stuck = a.client;
  ++a.client.incarnation;
  EXPECT_EQ(keep(a, "f"), file);
  auto change = begin_chmod(stuck, "f", 0600);
  EXPECT_EQ(change->result, std::nullopt);
  drop_what_is_recalled(a);
  run_ready();
  EXPECT_OK(change->result);
}

TEST_F(MetaLeases, ARequestForEventsThatANewerOneEndsStillReturnsRecalls) {
  // A client that gets a reply without events trusts its leases for a long time.
  Keeping a = keeping();
  TestClient b = connect();
  const Handle file = make_file(b, "f", 10);
  keep(a, "f");
  auto change = begin_chmod(b, "f");
  auto first = begin<wire::SessionEventsReply>(a.client, wire::SessionEventsRequest{a.table, 0, 5000}, no_id());
  ASSERT_OK(first->result);
  ASSERT_EQ((*first->result)->events.size(), 1U);
  EXPECT_EQ((*first->result)->events[0].subject, file.value);
  EXPECT_EQ(events(a).size(), 1U);
  drop_what_is_recalled(a);
}

TEST_F(MetaLeases, ALateAcknowledgmentCoversOnlyTheRecallItNames) {
  Keeping a = keeping();
  TestClient b = connect();
  const Handle file = make_file(b, "f", 10);
  keep(a, "f");
  auto change = begin_chmod(b, "f", 0640);
  EXPECT_EQ(events(a), std::vector<Handle>{file});
  const std::uint64_t first = std::exchange(a.acknowledged, 0);  // the acknowledgment is delayed
  wait(lease() + milliseconds(1));
  ASSERT_OK(change->result);
  EXPECT_TRUE(is_granted(*look(a, "f")));
  auto second = begin_chmod(b, "f", 0600);
  EXPECT_EQ(second->result, std::nullopt);
  auto late = asked<wire::SessionEventsReply>(a.client, wire::SessionEventsRequest{a.table, first, 0}, no_id());
  ASSERT_OK(late);
  run_ready();
  EXPECT_EQ(second->result, std::nullopt);  // the second lease is still valid
  drop_what_is_recalled(a);
  run_ready();
  EXPECT_OK(second->result);
}

TEST_F(MetaLeases, AServerGetsNoLeases) {
  Keeping a = keeping();
  make_file(a.client, "f", 1);
  TestClient b = connect();
  wire::LookupLeaseRequest request;
  request.where = at("f");
  rpc::Call call;
  call.header.op = wire::Op::kLookupLease;
  call.header.client = b.id;
  call.header.session_epoch = b.epoch;
  call.peer = std::make_shared<rpc::Peer>();
  call.peer->credential = alice();
  call.peer->kind = wire::PeerKind::kServer;
  Bytes body;
  wire::encode_body(request, body);
  const auto answer = run(role->service().operations().at(wire::Op::kLookupLease).handler(call, body));
  ASSERT_OK(answer);
  const auto reply = wire::decode_body<wire::LookupLeaseReply>(*answer);
  ASSERT_OK(reply);
  EXPECT_NE(reply->object, std::nullopt);
  EXPECT_FALSE(is_granted(*reply));
}

}  // namespace
}  // namespace spate::meta
