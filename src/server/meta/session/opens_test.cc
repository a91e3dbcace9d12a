// SPDX-License-Identifier: Apache-2.0
// Opens: rights, capabilities, which opens remain after a close.
#include "base/expect.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

class MetaOpens : public RoleTest {
 protected:
  TestClient client = connect();
  TestClient other = connect();
};

TEST_F(MetaOpens, ACapabilityHasTheRequestedRightsAndAGenuineCode) {
  const auto made = create(client, "f", kRW);
  ASSERT_OK(made);
  const Capability& c = made->capability;
  EXPECT_TRUE(verify(options.server_key, options.fs, c)) << "the capability has another code";
  EXPECT_EQ(c.handle, made->object.attributes.handle);
  EXPECT_EQ(c.rights, Rights::kReadWrite);
  EXPECT_EQ(c.client, client.id);
  EXPECT_EQ(c.session_epoch, client.epoch);
  EXPECT_EQ(c.layout_generation, made->object.layout->generation);
  EXPECT_EQ(c.uid, kAlice);
  EXPECT_EQ(c.expiry.ns - clock.wall().ns, options.capability_life.count());
  const auto read = open_file(other, "f", wire::kOpenRead);
  ASSERT_OK(read);
  EXPECT_EQ(read->capability.rights, Rights::kRead);
  EXPECT_EQ(read->capability.client, other.id);
}

TEST_F(MetaOpens, ACapabilityOfAMirroredFileIsForGroups) {
  close();
  options.replicas = 2;
  open();
  for (const ServerEntry& server : options.map.servers) role->core().group_servers().note(server.id, true);
  TestClient user = connect();
  const auto made = create(user, "f", kRW);
  ASSERT_OK(made);
  EXPECT_EQ(made->capability.rights, Rights::kReadWrite | Rights::kOnGroups);
  const auto read = open_file(user, "f", wire::kOpenRead);
  ASSERT_OK(read);
  EXPECT_EQ(read->capability.rights, Rights::kRead | Rights::kOnGroups);
}

TEST_F(MetaOpens, ModeBitsDecide) {
  TestClient bobs = connect(bob());
  ASSERT_OK(create(client, "f", 0, 0640));
  EXPECT_ERRC(open_file(bobs, "f", wire::kOpenRead), Errc::kPermissionDenied);
  ASSERT_OK(create(client, "g", 0, 0644));
  EXPECT_OK(open_file(bobs, "g", wire::kOpenRead));
  EXPECT_ERRC(open_file(bobs, "g", wire::kOpenWrite), Errc::kPermissionDenied);
  EXPECT_ERRC(open_file(bobs, "g", kRW), Errc::kPermissionDenied);
  EXPECT_ERRC(open_file(bobs, "g", wire::kOpenRead | wire::kOpenTruncate), Errc::kPermissionDenied);
  EXPECT_ERRC(open_file(bobs, "g", wire::kOpenRead | wire::kOpenExecute), Errc::kPermissionDenied);
  EXPECT_EQ(records(KeyKind::kOpen), 1U);
}

TEST_F(MetaOpens, AnOpenByInodeAsksForNoRightOnTheFoldersAbove) {
  wire::MkdirRequest mkdir;
  mkdir.where = at("private");
  mkdir.attributes.mode = 0700;
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir));
  const auto shared = create(client, "private/shared", 0, 0644);
  const auto own = create(client, "private/own", 0, 0600);
  ASSERT_OK(shared);
  ASSERT_OK(own);
  TestClient bobs = connect(bob());
  EXPECT_ERRC(open_file(bobs, "private/shared", wire::kOpenRead), Errc::kPermissionDenied);
  wire::OpenRequest by_inode = open_request("", wire::kOpenRead);
  by_inode.where.start = shared->object.attributes.handle;
  EXPECT_OK(asked<wire::OpenReply>(bobs, by_inode));
  by_inode.open_flags = wire::kOpenWrite;
  EXPECT_ERRC(asked<wire::OpenReply>(bobs, by_inode), Errc::kPermissionDenied);
  by_inode = open_request("", wire::kOpenRead);
  by_inode.where.start = own->object.attributes.handle;
  EXPECT_ERRC(asked<wire::OpenReply>(bobs, by_inode), Errc::kPermissionDenied);
}

TEST_F(MetaOpens, TheCreatorOfAFileGetsTheRequestedRightsWhateverTheMode) {
  const auto made = create(client, "f", kRW, 0);
  ASSERT_OK(made);
  EXPECT_EQ(made->capability.rights, Rights::kReadWrite);
  EXPECT_ERRC(open_file(client, "f", wire::kOpenRead), Errc::kPermissionDenied);
  wire::OpenRequest renewal = open_request("", kRW);
  renewal.where.start = made->object.attributes.handle;
  renewal.renew = true;
  wait(seconds(10));
  const auto renewed = asked<wire::OpenReply>(client, renewal);
  ASSERT_OK(renewed);
  EXPECT_GT(renewed->capability.expiry, made->capability.expiry);
  EXPECT_TRUE(verify(options.server_key, options.fs, renewed->capability)) << "the capability has another code";
  EXPECT_EQ(inode(made->object.attributes.handle).write_opens, 1U);
}

TEST_F(MetaOpens, ARenewalWithoutAnOpenChecksTheMode) {
  const Handle handle = make_file(client, "f", 10);
  wire::OpenRequest renewal = open_request("", wire::kOpenRead);
  renewal.where.start = handle;
  renewal.renew = true;
  ASSERT_OK(asked<wire::OpenReply>(client, renewal));
  EXPECT_EQ(records(KeyKind::kOpen), 1U);
  renewal.open_flags = wire::kOpenWrite;  // an open for reading gives no right to write
  ASSERT_OK(asked<wire::OpenReply>(client, renewal));
  EXPECT_EQ(inode(handle).write_opens, 1U);
  TestClient bobs = connect(bob());
  EXPECT_ERRC(asked<wire::OpenReply>(bobs, renewal), Errc::kPermissionDenied);
}

/// A crash of the machine loses an open for reading, which is not synced. Its close then ends the reading part of
/// another open of the session. The renewal of that one must bring back what is missing and nothing else: a second
/// writer would stay after the close.
TEST_F(MetaOpens, ARenewalBringsBackOnlyTheMissingPartOfAnOpen) {
  const auto made = create(client, "f", kRW, 0600);
  ASSERT_OK(made);
  const Handle handle = made->object.attributes.handle;
  wire::OpenRequest renewal = open_request("", kRW);
  renewal.where.start = handle;
  renewal.renew = true;
  for (const Rights lost : {Rights::kRead, Rights::kWrite}) {
    ASSERT_OK(close_file(client, handle, lost));
    const auto renewed = asked<wire::OpenReply>(client, renewal);
    ASSERT_OK(renewed);
    EXPECT_EQ(renewed->capability.rights, Rights::kReadWrite);
    EXPECT_EQ(inode(handle).write_opens, 1U);
  }
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite));
  EXPECT_EQ(inode(handle).write_opens, 0U);
  EXPECT_EQ(records(KeyKind::kOpen), 0U);
}

/// Otherwise a session could read a file that it may only write.
TEST_F(MetaOpens, ARenewalChecksTheModeForTheMissingPart) {
  ASSERT_OK(create(client, "f", 0, 0622));
  TestClient bobs = connect(bob());
  ASSERT_OK(open_file(bobs, "f", wire::kOpenWrite));
  wire::OpenRequest renewal = open_request("f", kRW);
  renewal.renew = true;
  EXPECT_ERRC(asked<wire::OpenReply>(bobs, renewal), Errc::kPermissionDenied);
}

TEST_F(MetaOpens, AnUncountedOpenGrantsACapabilityAndLeavesNoRecord) {
  const Handle handle = make_file(client, "f", 10);
  constexpr std::uint8_t kUncounted = wire::kOpenRead | wire::kOpenUncounted;
  const auto opened = open_file(other, "f", kUncounted);
  ASSERT_OK(opened);
  EXPECT_EQ(opened->capability.rights, Rights::kRead);
  EXPECT_EQ(opened->object.attributes.size, 10U);
  EXPECT_TRUE(verify(options.server_key, options.fs, opened->capability)) << "the capability has another code";
  EXPECT_EQ(records(KeyKind::kOpen), 0U);
  EXPECT_ERRC(close_file(other, handle, Rights::kRead), Errc::kBadDescriptor);
  TestClient bobs = connect(bob());
  ASSERT_OK(create(client, "private", 0, 0600));
  EXPECT_ERRC(open_file(bobs, "private", kUncounted), Errc::kPermissionDenied);
}

TEST_F(MetaOpens, AnUncountedOpenSetsAtimeIfAsked) {
  const Handle handle = make_file(client, "f", 10);
  const Attributes before = inode(handle).attributes;
  wait(seconds(10));
  ASSERT_OK(open_file(other, "f", wire::kOpenRead | wire::kOpenUncounted));
  EXPECT_EQ(inode(handle).attributes.atime, before.atime);
  ASSERT_OK(open_file(other, "f", wire::kOpenRead | wire::kOpenUncounted | wire::kOpenNotesRead));
  EXPECT_EQ(inode(handle).attributes.atime.ns, clock.wall().ns);
  EXPECT_EQ(inode(handle).attributes.ctime, before.ctime);
  EXPECT_EQ(records(KeyKind::kOpen), 0U);
}

TEST_F(MetaOpens, AnUncountedOpenMayOnlyRead) {
  make_file(client, "f", 10);
  for (const std::uint8_t more : {wire::kOpenWrite, wire::kOpenTruncate, wire::kOpenExecute, wire::kOpenByUser}) {
    const auto flags = static_cast<std::uint8_t>(wire::kOpenRead | wire::kOpenUncounted | more);
    EXPECT_ERRC(open_file(client, "f", flags), Errc::kInvalidArgument);
  }
  EXPECT_ERRC(open_file(client, "f", wire::kOpenUncounted), Errc::kInvalidArgument);
  EXPECT_ERRC(open_file(client, "f", wire::kOpenRead | wire::kOpenNotesRead), Errc::kInvalidArgument);
}

TEST_F(MetaOpens, OnlyFilesAreOpened) {
  wire::MkdirRequest mkdir;
  mkdir.where = at("d");
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir));
  EXPECT_ERRC(open_file(client, "d", wire::kOpenRead), Errc::kIsDirectory);
  EXPECT_ERRC(truncate(client, "d", 0), Errc::kIsDirectory);
  wire::SymlinkRequest symlink;
  symlink.where = at("s");
  symlink.target = "d";
  ASSERT_OK(asked<wire::ObjectReply>(client, symlink));
  EXPECT_ERRC(open_file(client, "s", wire::kOpenRead), Errc::kSymlinkLoop);
  wire::CreateRequest fifo;
  fifo.where = at("p");
  fifo.type = FileType::kFifo;
  fifo.attributes.mode = 0600;
  ASSERT_OK(asked<wire::OpenReply>(client, fifo));
  EXPECT_ERRC(open_file(client, "p", wire::kOpenRead), Errc::kNotSupported);
  EXPECT_ERRC(open_file(client, "none", wire::kOpenRead), Errc::kNotFound);
}

TEST_F(MetaOpens, NothingIsClosedTwice) {
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  EXPECT_ERRC(close_file(client, handle, Rights::kRead), Errc::kBadDescriptor);
  EXPECT_ERRC(close_file(other, handle, Rights::kWrite), Errc::kBadDescriptor);
  EXPECT_ERRC(close_file(client, handle, Rights::kNone), Errc::kInvalidArgument);
  EXPECT_EQ(inode(handle).write_opens, 1U);
  EXPECT_OK(close_file(client, handle, Rights::kReadWrite));  // as after a crash that took an open for reading
  EXPECT_ERRC(close_file(client, handle, Rights::kWrite), Errc::kBadDescriptor);
  EXPECT_ERRC(close_file(client, Handle(9999), Rights::kRead), Errc::kBadDescriptor);
  EXPECT_EQ(inode(handle).write_opens, 0U);
}

TEST_F(MetaOpens, AFileWithoutANameLivesUntilItsLastClose) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_OK(open_file(client, "f", wire::kOpenRead));
  ASSERT_OK(open_file(other, "f", wire::kOpenRead));
  ASSERT_TRUE(write(client, handle, 10));
  const auto unlinked = unlink(other, "f");
  ASSERT_OK(unlinked);
  EXPECT_EQ(unlinked->attributes.link_count, 0U);
  restart();
  ASSERT_OK(join(client));
  ASSERT_OK(join(other));
  wait(seconds(5));
  EXPECT_FALSE(is_removed(io.files[handle]));
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite, data_of(handle)));
  ASSERT_OK(close_file(client, handle, Rights::kRead));
  run_ready();
  EXPECT_FALSE(is_removed(io.files[handle]));
  wire::GetattrRequest getattr;
  getattr.handle = handle;
  EXPECT_EQ(asked<wire::ObjectReply>(other, getattr, no_id())->attributes.size, 10U);
  ASSERT_OK(close_file(other, handle, Rights::kRead));
  run_ready();
  EXPECT_TRUE(is_removed(io.files[handle]));
  EXPECT_EQ(records(KeyKind::kRemoval), 0U);
  EXPECT_ERRC(asked<wire::ObjectReply>(other, getattr, no_id()), Errc::kStaleHandle);
}

TEST_F(MetaOpens, OpeningAnExistingFileForWritingIsDurableBeforeItIsAnswered) {
  make_file(client, "f", 10);
  const std::size_t before = store.syncs;
  ASSERT_OK(open_file(client, "f", wire::kOpenRead));
  ASSERT_OK(create(client, "new", wire::kOpenWrite));
  EXPECT_EQ(store.syncs, before);
  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  EXPECT_EQ(store.syncs, before + 1);
}

TEST_F(MetaOpens, ClosesOfAFileThatIsReadDoNotTouchItsInode) {
  make_file(client, "f", 10);
  const auto opened = open_file(client, "f", wire::kOpenRead);
  const InodeRecord before = inode(opened->object.attributes.handle);
  ASSERT_OK(close_file(client, before.handle(), Rights::kRead));
  EXPECT_EQ(inode(before.handle()), before);
}

/// The same with a store that answers late and in any order.
class MetaOpensOverlap : public RoleTest {
 protected:
  MetaOpensOverlap() : RoleTest(7, true) {}
};

TEST_F(MetaOpensOverlap, ManyOpenAndCloseOneFileAtOnce) {
  TestClient maker = connect();
  const Handle handle = make_file(maker, "f", 10);
  std::vector<TestClient> clients;
  for (int i = 0; i < 30; ++i) clients.push_back(connect());
  std::vector<std::unique_ptr<Pending<wire::OpenReply>>> openings;
  for (TestClient& c : clients) openings.push_back(begin<wire::OpenReply>(c, open_request("f", kRW), id(1)));
  wait(seconds(1));
  for (const auto& opening : openings) ASSERT_OK(opening->result);
  EXPECT_EQ(inode(handle).write_opens, 30U);
  std::vector<std::unique_ptr<Pending<wire::CloseReply>>> closings;
  for (TestClient& c : clients) {
    ASSERT_TRUE(write(c, handle, 1000 * c.id.value)) << "client " << c.id.value;
    closings.push_back(begin<wire::CloseReply>(c, close_request(handle, Rights::kReadWrite), id(2)));
  }
  wait(seconds(1));
  for (const auto& closing : closings) ASSERT_OK(closing->result);
  EXPECT_EQ(inode(handle).write_opens, 0U);
  EXPECT_EQ(inode(handle).attributes.size, data_of(handle).size);
  EXPECT_TRUE(knows_size(inode(handle).attributes));
  EXPECT_EQ(records(KeyKind::kOpen), 0U);
}

}  // namespace
}  // namespace spate::meta
