// SPDX-License-Identifier: Apache-2.0
// Delegated directories: who gets one, what recalls it, and who waits.
#include "server/meta/leases/delegations_test.h"

#include "model/defect.h"
#include "server/meta/testing/audit_test.h"
#include "wire/xattr_messages.h"

namespace spate::meta {
namespace {

TEST_F(MetaDelegations, ANewDirectoryIsDelegatedToItsMaker) {
  Holder h = holder();
  const Handle d = delegated(h, "d");
  EXPECT_EQ(role->leases().delegated(), 1U);
  // A later grant of it says so, too.
  ASSERT_THAT(statuses(send(h.q, {create(h.q, d, "f"), mkdir(h.q, d, "e")})), Each(Errc::kOk));
  EXPECT_TRUE(is_delegated(d));
  EXPECT_TRUE(is_delegated(Handle(h.q.unused.value - 1)));  // d/e
  EXPECT_EQ(flags_of(Handle(h.q.unused.value - 2)), 0U);    // d/f
  EXPECT_EQ(role->leases().delegated(), 3U);
  // In a batch, a directory counts that has no names at its end.
  wire::BatchedChange one{wire::Op::kMkdir, {}};
  wire::BatchedChange two{wire::Op::kMkdir, {}};
  wire::BatchedChange within{wire::Op::kMkdir, {}};
  wire::encode_body(mkdir_request("one"), one.body);
  wire::encode_body(mkdir_request("two"), two.body);
  wire::encode_body(mkdir_request("two/within"), within.body);
  ASSERT_OK(asked<wire::ChangeBatchReply>(h.q.client, wire::ChangeBatchRequest{{one, two, within}}));
  EXPECT_TRUE(is_delegated(stat(h.q.client, "one")->handle));
  EXPECT_FALSE(is_delegated(stat(h.q.client, "two")->handle));
  EXPECT_TRUE(is_delegated(stat(h.q.client, "two/within")->handle));
}

TEST_F(MetaDelegations, SomeDirectoriesAreDelegatedToNobody) {
  Holder h = holder();
  const auto made = [&](Holder& by, wire::MkdirRequest request) {
    const auto reply = asked<wire::ObjectReply>(by.q.client, std::move(request));
    EXPECT_OK(reply);
    return is_delegated(reply->attributes.handle);
  };
  EXPECT_TRUE(made(h, mkdir_request("plain")));
  EXPECT_FALSE(made(h, mkdir_request("sticky", 01777)));
  EXPECT_FALSE(made(h, mkdir_request("setgid", 02755)));
  Holder r = holder(root_user());
  wire::MkdirRequest for_alice = mkdir_request("of_alice");
  for_alice.attributes.uid = kAlice;
  EXPECT_TRUE(made(r, for_alice)) << "root may";
  ASSERT_OK(asked<wire::ObjectReply>(r.q.client, mkdir_request("parent", 02777)));
  EXPECT_FALSE(made(r, mkdir_request("parent/d"))) << "it inherits setgid";
  Holder plain = holder();
  plain.q.client.features = wire::kLeaseFeatures;
  EXPECT_FALSE(made(plain, mkdir_request("other")));
  Holder hasty{{}, queueing()};  // has never asked for a lease: no marker says that it may have delegations
  EXPECT_FALSE(made(hasty, mkdir_request("hasty")));
  EXPECT_EQ(role->leases().delegated(), 2U);
}

/// Its maker could not compute the rights of what is made in it.
TEST_F(MetaDelegations, ADirectoryThatGetsADefaultListIsDelegatedNoMore) {
  Holder h = holder();
  const Handle d = delegated(h, "d");
  wire::SetxattrRequest list;
  list.where = at("d");
  list.name = "user.x";
  ASSERT_OK(asked<wire::Empty>(h.q.client, list));
  EXPECT_TRUE(is_delegated(d)) << "another attribute changes nothing";
  list.name = "system.posix_acl_default";
  Encoder bytes(list.value);
  bytes.u32(2);
  for (const std::uint16_t tag : std::array<std::uint16_t, 3>{1, 4, 32}) {
    bytes.u16(tag);
    bytes.u16(7);
    bytes.u32(0);
  }
  ASSERT_OK(asked<wire::Empty>(h.q.client, list));
  EXPECT_NE(flags_of(d), 0) << "the answer tells of the directory";
  EXPECT_FALSE(is_delegated(d));
}

TEST_F(MetaDelegations, ReadsWaitForWhatIsQueued) {
  const auto found = waits<wire::ObjectReply>(lookup("d1/f"), false);
  EXPECT_OK(found);
  EXPECT_ERRC(waits<wire::ObjectReply>(lookup("d2/none"), false), Errc::kNotFound);
  const auto directory = waits<wire::ObjectReply>(lookup("d3"), false);
  ASSERT_OK(directory);
  EXPECT_EQ(directory->attributes.size, 2U);
  wire::LookupLeaseRequest lease;
  lease.where = at("d4/f");
  const auto leased = waits<wire::LookupLeaseReply>(lease, false);
  ASSERT_OK(leased);
  EXPECT_NE(leased->object, std::nullopt);
  wire::AccessRequest access;
  access.where = at("d5/l");
  EXPECT_OK(waits<wire::ObjectReply>(access, false));
  wire::GetxattrRequest xattr;
  xattr.where = at("d6/f");
  xattr.name = "user.none";
  EXPECT_ERRC(waits<wire::GetxattrReply>(xattr, false), Errc::kNoAttribute);
  wire::ListxattrRequest xattrs;
  xattrs.where = at("d7/f");
  EXPECT_OK(waits<wire::ListxattrReply>(xattrs, false));
}

TEST_F(MetaDelegations, ChangesWaitForWhatIsQueued) {
  EXPECT_ERRC(waits<wire::ObjectReply>(mkdir_request("d1/f"), true), Errc::kExists);
  wire::UnlinkRequest unlink;
  unlink.where = at("d2/l");
  EXPECT_OK(waits<wire::ObjectReply>(unlink, true));
  EXPECT_ERRC(waits<wire::Empty>(wire::RmdirRequest{at("d3")}, true), Errc::kNotEmpty);
  EXPECT_OK(waits<wire::Empty>(rename_request("d4/f", "taken"), true));
  EXPECT_OK(waits<wire::Empty>(rename_request("d5", "moved"), true));
  wire::LinkRequest link;
  link.existing = at("d6/f");
  link.where = at("link");
  EXPECT_OK(waits<wire::ObjectReply>(link, true));
  EXPECT_OK(waits<wire::OpenReply>(open_request("d7/f", wire::kOpenRead), true));
  wire::CreateRequest create = create_request(kRootHandle, "d8/f", wire::kOpenExclusive);
  EXPECT_ERRC(waits<wire::OpenReply>(create, true), Errc::kExists);
  wire::SetattrRequest chmod;
  chmod.where = at("d9");
  chmod.mode = 0700;
  EXPECT_OK(waits<wire::ObjectReply>(chmod, true));
  wire::SetxattrRequest setxattr;
  setxattr.where = at("d10/f");
  setxattr.name = "user.x";
  EXPECT_OK(waits<wire::Empty>(setxattr, true));
  EXPECT_OK(waits<wire::ObjectReply>(truncate_request("d11/f", 10), true));
  EXPECT_OK(waits<wire::Empty>(rename_request("moved", "d12/m"), true));
  Audit(*this).check();
}

TEST_F(MetaDelegations, ListingsWaitForWhatIsQueued) {
  Holder h = holder();
  TestClient b = connect();
  const Handle d = delegated(h, "d");
  wire::ReaddirRequest readdir;
  readdir.handle = d;
  auto lists = begin_by<wire::ReaddirReply>(b, readdir);
  EXPECT_EQ(lists->result, std::nullopt);
  ASSERT_EQ(recalls(h), std::vector<Handle>{d});
  ASSERT_THAT(statuses(send(h.q, {create(h.q, d, "f"), create(h.q, d, "g")})), Each(Errc::kOk));
  give_back(h);
  ASSERT_OK(lists->result);
  EXPECT_EQ((*lists->result)->entries.size(), 2U);
}

// A listing with attributes meets every delegated directory in it: they are recalled together.
TEST_F(MetaDelegations, WhatAListingMeetsIsRecalledTogether) {
  Holder h = holder();
  TestClient b = connect();
  std::vector<Handle> all;
  for (int i = 0; i < 20; ++i) all.push_back(delegated(h, "d" + std::to_string(i)));
  wire::ReaddirRequest readdir;
  readdir.handle = kRootHandle;
  auto names = begin_by<wire::ReaddirReply>(b, readdir);
  EXPECT_OK(names->result);  // names alone are not delegated
  readdir.attributes = true;
  auto lists = begin_by<wire::ReaddirReply>(b, readdir);
  EXPECT_EQ(lists->result, std::nullopt);
  EXPECT_THAT(recalls(h), testing::UnorderedElementsAreArray(all));
  give_back(h);
  ASSERT_OK(lists->result);
  EXPECT_EQ((*lists->result)->entries.size(), 20U);
  EXPECT_EQ(role->leases().delegated(), 0U);
}

TEST_F(MetaDelegations, AnObjectIsProtectedAlsoWhereOthersReachItByItself) {
  Holder h = holder();
  TestClient b = connect();
  const Handle d = delegated(h, "d");
  const Handle f = h.q.unused;
  ASSERT_THAT(statuses(send(h.q, {create(h.q, d, "f"), create(h.q, d, "g")})), Each(Errc::kOk));
  wire::LinkRequest link;
  link.existing = at("d/f");
  link.where = at("link");
  ASSERT_OK(asked<wire::ObjectReply>(h.q.client, link));
  auto looks = begin_by<wire::ObjectReply>(b, lookup("link"));
  EXPECT_EQ(looks->result, std::nullopt);
  EXPECT_EQ(recalls(h), std::vector<Handle>{f});
  ASSERT_THAT(statuses(send(h.q, {chmod(f, 0600)})), Each(Errc::kOk));
  give_back(h);
  ASSERT_OK(looks->result);
  EXPECT_EQ((*looks->result)->attributes.mode, 0600U);
  auto by_handle = begin_by<wire::ObjectReply>(b, wire::GetattrRequest{Handle(f.value + 1)});
  EXPECT_EQ(recalls(h), std::vector<Handle>{Handle(f.value + 1)});
  give_back(h);
  EXPECT_OK(by_handle->result);
  auto in_d = begin_by<wire::ObjectReply>(b, lookup("d"));
  EXPECT_EQ(recalls(h), std::vector<Handle>{d});
  give_back(h);
  EXPECT_OK(in_d->result);
}

TEST_F(MetaDelegations, WithItsDirectoryAnObjectIsGivenBack) {
  Holder h = holder();
  TestClient b = connect();
  const Handle d = delegated(h, "d");
  const Handle f = h.q.unused;
  ASSERT_THAT(statuses(send(h.q, {create(h.q, d, "f")})), Each(Errc::kOk));
  auto looks = begin_by<wire::ObjectReply>(b, lookup("d/f"));
  EXPECT_EQ(recalls(h), std::vector<Handle>{d});
  give_back(h);
  EXPECT_OK(looks->result);
  EXPECT_OK(begin_by<wire::ObjectReply>(b, wire::GetattrRequest{f})->result);
  // It never becomes delegated again.
  ASSERT_THAT(statuses(send(h.q, {create(h.q, d, "g")})), Each(Errc::kOk));
  EXPECT_OK(begin_by<wire::ObjectReply>(b, lookup("d/g"))->result);
}

// The changes that are queued need the directory's lock.
TEST_F(MetaDelegations, WhoWaitsHoldsNoLock) {
  Holder h = holder();
  const Handle d = delegated(h, "d");
  std::vector<TestClient> others;
  for (int i = 0; i < 3; ++i) others.push_back(connect());
  std::vector<std::unique_ptr<Pending<wire::OpenReply>>> creates;
  for (TestClient& b : others)
    creates.push_back(begin_change_by<wire::OpenReply>(b, create_request(d, "f" + std::to_string(b.id.value))));
  wire::RenameRequest rename = rename_request("d", "e");
  auto renames = begin_change_by<wire::Empty>(others[0], rename);
  EXPECT_EQ(recalls(h), std::vector<Handle>{d});
  ASSERT_THAT(statuses(send(h.q, {create(h.q, d, "f"), chmod(d, 0777)})), Each(Errc::kOk));
  give_all_back(h);
  for (const auto& one : creates) EXPECT_OK(one->result);
  EXPECT_OK(renames->result);
}

TEST_F(MetaDelegations, TheHolderWaitsForNobody) {
  Holder h = holder();
  const Handle d = delegated(h, "d");
  ASSERT_THAT(statuses(send(h.q, {create(h.q, d, "f"), mkdir(h.q, d, "e")})), Each(Errc::kOk));
  EXPECT_OK(stat(h.q.client, "d/f"));
  EXPECT_OK(unlink(h.q.client, "d/f"));
  EXPECT_OK(asked<wire::Empty>(h.q.client, rename_request("d/e", "d/f")));
  h.q.client.incarnation = 2;  // it has connected again
  ASSERT_THAT(statuses(send(h.q, {create(h.q, d, "g"), chmod(d, 0700)})), Each(Errc::kOk));
  EXPECT_OK(stat(h.q.client, "d/g"));
  EXPECT_OK(unlink(h.q.client, "d/g"));
  h.q.client.incarnation = 1;  // and a late copy of a request comes
  ASSERT_THAT(statuses(send(h.q, {create(h.q, d, "h")})), Each(Errc::kOk));
  EXPECT_THAT(recalls(h), testing::IsEmpty());
  EXPECT_GT(role->leases().delegated(), 0U);
}

TEST_F(MetaDelegations, WhoDoesNotAnswerIsFenced) {
  Holder h = holder();
  TestClient b = connect();
  delegated(h, "d");
  auto looks = begin_by<wire::ObjectReply>(b, lookup("d"));
  for (Duration passed{0}; passed + seconds(2) < options.session_lease; passed += seconds(2)) {
    wait(seconds(2));
    recalls(h);  // it asks for events, but never acknowledges
    ASSERT_OK(keep_alive(b));
    ASSERT_EQ(looks->result, std::nullopt) << "it waited for only " << passed.count();
  }
  for (int i = 0; i < 10 && !looks->result; ++i) {
    wait(seconds(1));
    ASSERT_OK(keep_alive(b));
  }
  ASSERT_OK(looks->result);
  EXPECT_ERRC(send(h.q, {create(h.q, kRootHandle, "late")}), Errc::kSessionFenced);
  EXPECT_EQ(role->leases().delegated(), 0U);
}

TEST_F(MetaDelegations, TheEndOfASessionEndsItsDelegations) {
  for (const bool by_request : {true, false}) {
    Holder h = holder();
    TestClient b = connect();
    delegated(h, by_request ? "d" : "e");
    auto looks = begin_by<wire::ObjectReply>(b, lookup(by_request ? "d" : "e"));
    EXPECT_EQ(looks->result, std::nullopt);
    if (by_request) EXPECT_OK(asked<wire::Empty>(h.client, wire::EndSessionRequest(), no_id()));
    for (int i = 0; i < 100 && !looks->result; ++i) {
      wait(seconds(1));
      ASSERT_OK(keep_alive(b));
      if (by_request) break;
    }
    EXPECT_OK(looks->result);
    EXPECT_EQ(role->leases().delegated(), 0U);
  }
}

TEST_F(MetaDelegations, AReadThatRecallsNothingIsFound) {
  Holder h = holder();
  TestClient b = connect();
  delegated(h, "d");
  planted_defect = Defect::kUnrecalledByRead;
  EXPECT_NE(begin_by<wire::ObjectReply>(b, lookup("d/f"))->result, std::nullopt) << "the plant is not found";
  planted_defect = Defect::kNone;
}

// After a restart the holder sends what it has queued before it says that it knows of the restart.
TEST_F(MetaDelegations, AfterARestartAllOthersWaitForTheHolder) {
  Holder h = holder();
  Holder other = holder();
  TestClient b = connect();
  const Handle d = delegated(h, "d");
  const Handle e = delegated(other, "e");
  restart();
  EXPECT_EQ(role->leases().delegated(), 0U);
  auto looks = begin_by<wire::ObjectReply>(b, lookup("d/f"));
  auto root = begin_by<wire::ObjectReply>(b, lookup(""));
  auto makes = begin_change_by<wire::ObjectReply>(b, mkdir_request("x"));
  EXPECT_OK(asked<wire::ClusterMapReply>(b, wire::ClusterMapRequest(), no_id()));  // has nothing to do with names
  wait(2 * lease());                                                               // other leases would have ended
  EXPECT_EQ(looks->result, std::nullopt);
  // Two holders do not wait for each other.
  ASSERT_THAT(statuses(send(h.q, {create(h.q, d, "f")})), Each(Errc::kOk));
  ASSERT_THAT(statuses(send(other.q, {create(other.q, e, "f")})), Each(Errc::kOk));
  h.acknowledged = 0;
  recalls(h);  // learns of the new table
  EXPECT_EQ(looks->result, std::nullopt);
  recalls(h);  // tells that it knows it
  EXPECT_EQ(looks->result, std::nullopt) << "the other holder has not said so";
  other.acknowledged = 0;
  recalls(other);
  recalls(other);
  run_ready();
  ASSERT_OK(looks->result);
  EXPECT_OK(root->result);
  give_all_back(h);
  EXPECT_OK(makes->result);
}

TEST_F(MetaDelegations, AfterARestartAHolderThatSaysNothingIsFenced) {
  Holder h = holder();
  TestClient b = connect();
  delegated(h, "d");
  restart();
  looks_up_d(b, [&](Duration /*waited*/, bool /*found*/) {
    std::ignore = keep_alive(h.client);  // it lives, but asks for no events
  });
  EXPECT_ERRC(send(h.q, {create(h.q, kRootHandle, "late")}), Errc::kSessionFenced);
}

TEST_F(MetaDelegations, AfterARestartAHolderThatStaysAwayIsWaitedForAsLongAsItsSession) {
  Holder h = holder();
  TestClient b = connect();
  delegated(h, "d");
  restart();
  looks_up_d(b, [&](Duration waited, bool found) {
    if (waited + seconds(1) < options.session_lease) {
      EXPECT_FALSE(found) << "after " << waited.count() << " ns";
    }
  });
  restart();
  EXPECT_OK(begin_by<wire::ObjectReply>(b, lookup("d"))->result) << "the marker is gone";
}

}  // namespace
}  // namespace spate::meta
