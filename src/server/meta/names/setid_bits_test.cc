// SPDX-License-Identifier: Apache-2.0
// Set-uid and set-gid: a write by a user other than root clears them, whichever path the data takes.
#include "server/meta/testing/role_test.h"
#include "wire/xattr_messages.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

class MetaSetidBits : public RoleTest {
 protected:
  MetaSetidBits() {
    make_file(root, "f", 10);
    set_mode(root, 06775);
  }

  std::uint32_t mode() { return stat(root, "f")->mode; }
  Handle handle() { return stat(root, "f")->handle; }
  void set_mode(TestClient& client, std::uint32_t mode) {
    wire::SetattrRequest request;
    request.where = at("f");
    request.mode = mode;
    ASSERT_OK(asked<wire::ObjectReply>(client, std::move(request)));
  }
  /// A set-uid file that the user owns.
  void give_to(TestClient& client) {
    wire::SetattrRequest request;
    request.where = at("f");
    request.uid = client.who.uid;
    request.gid = client.who.gid;
    ASSERT_OK(asked<wire::ObjectReply>(root, std::move(request)));
    set_mode(root, 06775);
  }

  TestClient root = connect(root_user());
  TestClient user = connect(alice());
};

TEST_F(MetaSetidBits, AreClearedByAWriteAtOnceAndAfterTheClose) {
  give_to(user);
  ASSERT_OK(open_file(user, "f", wire::kOpenWrite));
  EXPECT_EQ(mode(), 06775U) << "an open is no write";
  ASSERT_TRUE(write(user, handle(), 20));
  EXPECT_EQ(mode(), 0775U) << "while it is being written";
  ASSERT_OK(close_file(user, handle(), Rights::kWrite));  // the close reports no size: the datafiles are asked
  wait(seconds(5));
  EXPECT_EQ(mode(), 0775U);
  EXPECT_EQ(inode(handle()).attributes.mode, 0775U);
  EXPECT_FALSE(inode(handle()).written_by_users) << "after the datafiles were asked";
}

TEST_F(MetaSetidBits, AreClearedWhenTheOnlyWriterReportsItsWrite) {
  give_to(user);
  ASSERT_OK(open_file(user, "f", wire::kOpenWrite));
  ASSERT_TRUE(write(user, handle(), 20));
  ASSERT_OK(close_file(user, handle(), Rights::kWrite, data_of(handle())));
  EXPECT_EQ(inode(handle()).attributes.mode, 0775U);
}

TEST_F(MetaSetidBits, StayWhenNothingIsWritten) {
  give_to(user);
  ASSERT_OK(open_file(user, "f", wire::kOpenWrite));
  ASSERT_OK(close_file(user, handle(), Rights::kWrite));
  wait(seconds(5));
  EXPECT_EQ(mode(), 06775U);
}

TEST_F(MetaSetidBits, StayWhenRootWrites) {
  ASSERT_OK(open_file(root, "f", wire::kOpenWrite));
  ASSERT_TRUE(write(root, handle(), 20));
  EXPECT_EQ(mode(), 06775U);
  ASSERT_OK(close_file(root, handle(), Rights::kWrite));
  wait(seconds(5));
  EXPECT_EQ(mode(), 06775U);
}

/// A mount of root opens files for all users.
TEST_F(MetaSetidBits, AreClearedByAWriteThatRootsSessionMakesForAUser) {
  ASSERT_OK(open_file(root, "f", wire::kOpenWrite | wire::kOpenByUser));
  ASSERT_TRUE(write(root, handle(), 20));
  EXPECT_EQ(mode(), 0775U);
  ASSERT_OK(close_file(root, handle(), Rights::kWrite));
  set_mode(root, 06775);
  ASSERT_OK(open_file(root, "f", wire::kOpenWrite | wire::kOpenTruncate | wire::kOpenByUser));
  EXPECT_EQ(mode(), 0775U);
}

TEST_F(MetaSetidBits, SetGidWithoutGroupExecuteStays) {
  give_to(user);
  set_mode(root, 06765);
  ASSERT_OK(open_file(user, "f", wire::kOpenWrite));
  ASSERT_TRUE(write(user, handle(), 20));
  EXPECT_EQ(mode(), 02765U);
}

TEST_F(MetaSetidBits, SetDuringAnOpenAreClearedByTheNextWrite) {
  give_to(user);
  set_mode(root, 0775);
  ASSERT_OK(open_file(user, "f", wire::kOpenWrite));
  ASSERT_TRUE(write(user, handle(), 20));
  set_mode(root, 04775);
  EXPECT_EQ(mode(), 04775U) << "what was written before does not count";
  ASSERT_TRUE(write(user, handle(), 30));
  EXPECT_EQ(mode(), 0775U);
  set_mode(root, 04775);
  ASSERT_OK(close_file(user, handle(), Rights::kWrite));
  wait(seconds(5));
  EXPECT_EQ(mode(), 04775U) << "after them nothing was written";
}

/// cp -p and tar set the bits after they have written the data.
TEST_F(MetaSetidBits, SetAfterTheLastCloseStay) {
  const auto made = create(user, "copy", wire::kOpenWrite);
  ASSERT_OK(made);
  const Handle copy = made->object.attributes.handle;
  ASSERT_TRUE(write(user, copy, 20));
  wire::CloseRequest request = close_request(copy, Rights::kWrite);
  request.mode = 04755;
  ASSERT_OK(asked<wire::CloseReply>(user, std::move(request)));
  wait(seconds(5));
  EXPECT_EQ(stat(user, "copy")->mode, 04755U);
}

TEST_F(MetaSetidBits, AreClearedEvenIfTheServerDiesBeforeTheClose) {
  give_to(user);
  ASSERT_OK(open_file(user, "f", wire::kOpenWrite));
  ASSERT_TRUE(write(user, handle(), 20));
  restart();
  ASSERT_OK(join(root));
  ASSERT_OK(join(user));
  EXPECT_EQ(mode(), 0775U);
  ASSERT_OK(close_file(user, handle(), Rights::kWrite));
  wait(seconds(5));
  EXPECT_EQ(mode(), 0775U);
}

TEST_F(MetaSetidBits, ATimeThatIsSetMeanwhileDoesNotHideAWrite) {
  give_to(user);
  ASSERT_OK(open_file(user, "f", wire::kOpenWrite));
  ASSERT_TRUE(write(user, handle(), 20));
  wire::SetattrRequest request;
  request.where = at("f");
  request.mtime = WallTime{77};
  ASSERT_OK(asked<wire::ObjectReply>(user, std::move(request)));
  EXPECT_EQ(mode(), 0775U);
}

TEST_F(MetaSetidBits, AreHiddenWhileTheDatafilesCannotBeAsked) {
  give_to(user);
  const Handle file = handle();
  ASSERT_OK(open_file(user, "f", wire::kOpenWrite));
  ASSERT_TRUE(write(user, file, 20));
  io.hold();
  EXPECT_EQ(mode(), 0775U);
  io.release();
  ASSERT_OK(close_file(user, file, Rights::kWrite));
}

/// Security attributes are not supported, so there are no file capabilities that a write would have to clear.
TEST_F(MetaSetidBits, NoFileHasCapabilities) {
  wire::SetxattrRequest request;
  request.where = at("f");
  request.name = "security.capability";
  request.value = Bytes(20);
  EXPECT_ERRC(asked<wire::Empty>(root, std::move(request)), Errc::kNotSupported);
}

}  // namespace
}  // namespace spate::meta
