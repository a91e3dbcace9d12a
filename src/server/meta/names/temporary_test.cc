// SPDX-License-Identifier: Apache-2.0
// Files created without a name (O_TMPFILE), and the group of new objects.
#include "base/expect.h"
#include "server/meta/testing/audit_test.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

class MetaTemporary : public RoleTest {
 protected:
  Result<wire::OpenReply> make(TestClient& who, std::uint8_t more = 0) {
    return create(who, "", static_cast<std::uint8_t>(wire::kOpenWrite | wire::kOpenTemporary | more), 0600);
  }
  Result<wire::ObjectReply> name(TestClient& who, Handle handle, std::string path) {
    wire::LinkRequest request;
    request.existing.start = handle;
    request.where = at(std::move(path));
    return asked<wire::ObjectReply>(who, std::move(request));
  }
  TestClient client = connect();
};

TEST_F(MetaTemporary, AreRemovedByTheirLastClose) {
  const auto made = make(client);
  ASSERT_OK(made);
  EXPECT_EQ(made->object.attributes.link_count, 0U);
  const Handle handle = made->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 10));
  Audit(*this).check();
  ASSERT_OK(close_file(client, handle, Rights::kWrite));
  wait(seconds(1));
  EXPECT_TRUE(is_removed(io.files[handle]));
  Audit(*this).check_at_rest();
}

TEST_F(MetaTemporary, StayWhenTheyGetAName) {
  const Handle handle = make(client)->object.attributes.handle;
  ASSERT_OK(name(client, handle, "named"));
  ASSERT_TRUE(write(client, handle, 10));
  ASSERT_OK(close_file(client, handle, Rights::kWrite, data_of(handle)));
  EXPECT_EQ(stat(client, "named")->size, 10U);
  ASSERT_OK(unlink(client, "named"));
  wait(seconds(1));
  EXPECT_TRUE(is_removed(io.files[handle]));
}

TEST_F(MetaTemporary, AFileThatHasLostItsNameGetsNoNewOne) {
  const Handle handle = make(client)->object.attributes.handle;
  ASSERT_OK(name(client, handle, "named"));
  ASSERT_OK(unlink(client, "named"));
  EXPECT_ERRC(name(client, handle, "again"), Errc::kNotFound);
}

TEST_F(MetaTemporary, NeverGetANameIfCreatedExclusively) {
  const Handle handle = make(client, wire::kOpenExclusive)->object.attributes.handle;
  EXPECT_ERRC(name(client, handle, "named"), Errc::kNotFound);
}

TEST_F(MetaTemporary, AreRemovedWithTheirSession) {
  const Handle handle = make(client)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 10));
  wait(options.session_lease + seconds(10));
  EXPECT_TRUE(is_removed(io.files[handle]));
}

TEST_F(MetaTemporary, NeedTheRightToWriteTheDirectory) {
  wire::MkdirRequest mkdir;
  mkdir.where = at("d");
  mkdir.attributes.mode = 0500;
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir));
  EXPECT_ERRC(create(client, "d", wire::kOpenWrite | wire::kOpenTemporary), Errc::kPermissionDenied);
  make_file(client, "f", 0);
  EXPECT_ERRC(create(client, "f", wire::kOpenWrite | wire::kOpenTemporary), Errc::kNotDirectory);
  EXPECT_ERRC(create(client, "", wire::kOpenRead | wire::kOpenTemporary), Errc::kInvalidArgument);
}

/// A mount of root creates objects for every user.
TEST_F(MetaTemporary, ASetgidDirectorysGroupOverridesTheUsersGroup) {
  Credential root_user;
  root_user.uid = 0;
  root_user.gid = 0;
  TestClient root = connect(root_user);
  wire::MkdirRequest mkdir;
  mkdir.where = at("shared");
  mkdir.attributes.mode = 02777;
  mkdir.attributes.gid = 4242;
  ASSERT_OK(asked<wire::ObjectReply>(root, mkdir));
  wire::CreateRequest request;
  request.where = at("shared/f");
  request.attributes.mode = 0644 | wire::NewAttributes::kOnBehalf;
  request.attributes.uid = 1001;
  request.attributes.gid = 1002;
  const auto made = asked<wire::OpenReply>(root, request);
  ASSERT_OK(made);
  EXPECT_EQ(made->object.attributes.uid, 1001U);
  EXPECT_EQ(made->object.attributes.gid, 4242U);
  EXPECT_EQ(made->object.attributes.mode, 0644U);
  request.where = at("shared/g");
  request.attributes.mode = 0644;
  EXPECT_EQ(asked<wire::OpenReply>(root, request)->object.attributes.gid, 1002U);  // set explicitly, as by cp -p
}

}  // namespace
}  // namespace spate::meta
