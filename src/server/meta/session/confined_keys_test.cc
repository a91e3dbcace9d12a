// SPDX-License-Identifier: Apache-2.0
// Keys for one directory at the meta server: what their holder reaches, and what not (docs/security.md, "Keys for one
// directory").
#include "server/meta/testing/confined_keys_test.h"

#include <gmock/gmock.h>

#include "base/expect.h"

namespace spate::meta {
namespace {

TEST_F(ConfinedKeys, InsideEverythingWorks) {
  EXPECT_OK(stat(user, "top/data"));
  EXPECT_OK(make_directory(user, "top/data/new"));
  EXPECT_TRUE(make_file(user, "top/data/new/file", 20)) << "a file in a new directory inside";
  EXPECT_OK(rename(user, "top/data/new/file", "top/data/sub/moved"));
  EXPECT_OK(rename(user, "top/data/new", "top/data/sub/new"));
  EXPECT_OK(link(user, at("top/data/sub/moved"), "top/data/link"));
  EXPECT_OK(symlink(user, "sub/f", "top/data/way"));
  EXPECT_OK(unlink(user, "top/data/sub/moved"));
  EXPECT_OK(unlink(user, "top/data/way"));
  EXPECT_OK(remove_directory(user, "top/data/sub/new"));
  EXPECT_OK(truncate(user, "top/data/f", 3));
  EXPECT_OK(getattr(user, inside));
  EXPECT_OK(open_by_handle(user, inside));
  EXPECT_OK(lock(user, inside, LockMode::kExclusive));
  wire::SetxattrRequest xattr;
  xattr.where = at("top/data/f");
  xattr.name = "user.colour";
  xattr.value = Bytes(3);
  EXPECT_OK(asked<wire::Empty>(user, xattr));
  const auto page = list(user, data);
  ASSERT_OK(page);
  EXPECT_EQ(page->entries.size(), 3U);
  EXPECT_OK(stat(user, "top/data/link")) << "a file after a link and an unlink of its old name";
}

TEST_F(ConfinedKeys, OnTheWayOnlyTheNameThatLeadsOnIsKnown) {
  EXPECT_OK(stat(user, ""));
  EXPECT_OK(stat(user, "top"));
  EXPECT_EQ(stat(user, "top/data/..")->handle, handle_of("top"));
  EXPECT_EQ(stat(user, "top/data/../data/f")->handle, inside);
  for (const char* path : {"none", "top/none", "top/other", "top/other/g", "top/data/../other", "top/data/../none"})
    EXPECT_ERRC(stat(user, path), Errc::kPermissionDenied) << path;
  EXPECT_OK(getattr(user, kRootHandle));
  EXPECT_OK(getattr(user, handle_of("top")));
  wire::AccessRequest access;
  access.where = at("top");
  access.want = 5;
  EXPECT_OK(asked<wire::ObjectReply>(user, access, no_id()));
}

TEST_F(ConfinedKeys, WhatIsOnTheWayIsNeitherListedNorChanged) {
  const Handle top = handle_of("top");
  for (const Handle above : {kRootHandle, top}) {
    EXPECT_ERRC(list(user, above), Errc::kPermissionDenied);
    EXPECT_ERRC(list(user, above, false), Errc::kPermissionDenied);
    wire::ListLeaseRequest leased;
    leased.handle = above;
    EXPECT_ERRC(asked<wire::ListLeaseReply>(user, leased, no_id()), Errc::kPermissionDenied);
  }
  wire::GetxattrRequest get;
  get.where = at("top");
  get.name = "user.a";
  EXPECT_ERRC(asked<wire::GetxattrReply>(user, get, no_id()), Errc::kPermissionDenied);
  wire::SetxattrRequest set;
  set.where = at("top");
  set.name = "user.a";
  EXPECT_ERRC(asked<wire::Empty>(user, set), Errc::kPermissionDenied);
  // A kernel needs to know the access control lists, and no other attributes.
  ASSERT_OK(asked<wire::Empty>(operators, set));
  wire::ListxattrRequest names;
  names.where = at("top");
  const auto shown = asked<wire::ListxattrReply>(user, names, no_id());
  ASSERT_OK(shown);
  EXPECT_THAT(shown->names, testing::IsEmpty());
  EXPECT_EQ(asked<wire::ListxattrReply>(operators, names, no_id())->names.size(), 1U);
  get.name = "system.posix_acl_access";
  EXPECT_ERRC(asked<wire::GetxattrReply>(user, get, no_id()), Errc::kNoAttribute);
  wire::SetattrRequest times;
  times.where = at("top");
  times.mtime_now = true;
  EXPECT_ERRC(asked<wire::ObjectReply>(user, times), Errc::kPermissionDenied);
  EXPECT_ERRC(make_directory(user, "top/new"), Errc::kPermissionDenied);
  EXPECT_ERRC(make_directory(user, "top/data"), Errc::kPermissionDenied);
  EXPECT_ERRC(create(user, "top/new"), Errc::kPermissionDenied);
  EXPECT_ERRC(create(user, "top", wire::kOpenWrite | wire::kOpenTemporary), Errc::kPermissionDenied);
  EXPECT_ERRC(symlink(user, "x", "top/new"), Errc::kPermissionDenied);
  EXPECT_ERRC(link(user, at("top/data/f"), "top/new"), Errc::kPermissionDenied);
  EXPECT_ERRC(open_file(user, "top", wire::kOpenRead), Errc::kPermissionDenied);
  EXPECT_ERRC(unlink(user, "top/other"), Errc::kPermissionDenied);
  EXPECT_EQ(handle_of("top/data"), data);
}

TEST_F(ConfinedKeys, ItsOwnDirectoryIsNeitherRenamedNorRemoved) {
  EXPECT_ERRC(rename(user, "top/data", "top/elsewhere"), Errc::kPermissionDenied);
  EXPECT_ERRC(rename(user, "top/data", "top/data/sub/data"), Errc::kPermissionDenied);
  EXPECT_ERRC(rename(user, "top/data/sub", "top/data"), Errc::kPermissionDenied);
  EXPECT_ERRC(remove_directory(user, "top/data"), Errc::kPermissionDenied);
  EXPECT_ERRC(remove_directory(user, "top/data/sub/../../data"), Errc::kPermissionDenied);
  EXPECT_EQ(handle_of("top/data"), data);
}

TEST_F(ConfinedKeys, NothingCrossesTheBorder) {
  for (const std::uint8_t flags : {std::uint8_t{0}, std::uint8_t{wire::kRenameNoReplace}}) {
    EXPECT_ERRC(rename(user, "top/data/f", "top/other/f", flags), Errc::kPermissionDenied);
    EXPECT_ERRC(rename(user, "top/data/f", "top/f", flags), Errc::kPermissionDenied);
    EXPECT_ERRC(rename(user, "top/other/g", "top/data/g", flags), Errc::kPermissionDenied);
    EXPECT_ERRC(rename(user, "top/data/sub", "top/other/sub", flags), Errc::kPermissionDenied);
    EXPECT_ERRC(rename(user, "top/other/deep", "top/data/deep", flags), Errc::kPermissionDenied);
  }
  EXPECT_ERRC(rename(user, "top/data/f", "top/other/g", wire::kRenameExchange), Errc::kPermissionDenied);
  EXPECT_ERRC(rename(user, "top/other/g", "top/data/f", wire::kRenameExchange), Errc::kPermissionDenied);
  EXPECT_ERRC(link(user, at("top/other/g"), "top/data/g"), Errc::kPermissionDenied);
  EXPECT_ERRC(link(user, at("top/data/f"), "top/other/f"), Errc::kPermissionDenied);
  wire::NamePath by_handle;
  by_handle.start = outside;
  EXPECT_ERRC(link(user, by_handle, "top/data/g"), Errc::kPermissionDenied);
  EXPECT_EQ(handle_of("top/data/f"), inside);
  EXPECT_EQ(handle_of("top/other/g"), outside);
}

TEST_F(ConfinedKeys, WhatIsMovedAwayIsOutsideAlsoByItsHandle) {
  const Handle sub = handle_of("top/data/sub");
  const Handle below = handle_of("top/data/sub/f");
  EXPECT_OK(getattr(user, below));
  ASSERT_OK(rename(operators, "top/data/sub", "top/other/sub"));
  ASSERT_OK(rename(operators, "top/data/f", "top/f"));
  for (const Handle handle : {sub, below, inside}) EXPECT_ERRC(getattr(user, handle), Errc::kPermissionDenied);
  EXPECT_ERRC(open_by_handle(user, below), Errc::kPermissionDenied);
  EXPECT_ERRC(list(user, sub), Errc::kPermissionDenied);
  ASSERT_OK(rename(operators, "top/other/sub", "top/data/sub"));
  EXPECT_OK(getattr(user, below));
}

TEST_F(ConfinedKeys, AHardLinkInsideToAFileOutsideIsOutside) {
  ASSERT_OK(link(operators, at("top/other/g"), "top/data/g"));
  EXPECT_ERRC(stat(user, "top/data/g"), Errc::kPermissionDenied);
  EXPECT_ERRC(open_file(user, "top/data/g", wire::kOpenRead), Errc::kPermissionDenied);
  EXPECT_ERRC(unlink(user, "top/data/g"), Errc::kPermissionDenied);
  EXPECT_ERRC(rename(user, "top/data/g", "top/data/h"), Errc::kPermissionDenied);
  EXPECT_ERRC(rename(user, "top/data/f", "top/data/g"), Errc::kPermissionDenied);
  const auto page = list(user, data);
  ASSERT_OK(page);
  ASSERT_EQ(page->entries.size(), 3U);
  for (const wire::DirectoryEntry& entry : page->entries)
    EXPECT_EQ(entry.attributes.has_value(), entry.name != "g") << entry.name;
  wire::ListLeaseRequest leased;
  leased.handle = data;
  const auto objects = asked<wire::ListLeaseReply>(user, leased, no_id());
  ASSERT_OK(objects);
  for (const wire::DirectoryEntry& entry : objects->page.entries)
    EXPECT_EQ(entry.attributes.has_value(), entry.name != "g") << entry.name;
  // When the name outside is gone, the file has a name inside only.
  ASSERT_OK(unlink(operators, "top/other/g"));
  EXPECT_OK(stat(user, "top/data/g"));
}

TEST_F(ConfinedKeys, AHardLinkOutsideToAFileInsideChangesNothing) {
  ASSERT_OK(link(operators, at("top/data/f"), "top/other/f"));
  EXPECT_OK(getattr(user, inside));
  EXPECT_OK(open_file(user, "top/data/f", kRW));
}

TEST_F(ConfinedKeys, WhatTheSessionHasOpenItMayUseUntilItClosesIt) {
  ASSERT_OK(open_file(user, "top/data/f", kRW));
  ASSERT_OK(rename(operators, "top/data/f", "top/other/f"));
  EXPECT_OK(getattr(user, inside));
  TestClient second = holder(confined(1));
  EXPECT_ERRC(getattr(second, inside), Errc::kPermissionDenied) << "another session has not opened it";
  wire::NamePath by_handle;
  by_handle.start = inside;
  EXPECT_ERRC(link(user, by_handle, "top/data/kept"), Errc::kPermissionDenied) << "it would keep the file";
  EXPECT_OK(close_file(user, inside, Rights::kReadWrite));
  EXPECT_ERRC(getattr(user, inside), Errc::kPermissionDenied);
}

TEST_F(ConfinedKeys, FilesWithoutANameBelongToTheSessionThatHasThemOpen) {
  ASSERT_OK(open_file(user, "top/data/f", kRW));
  ASSERT_OK(unlink(user, "top/data/f"));
  EXPECT_OK(getattr(user, inside));
  EXPECT_OK(close_file(user, inside, Rights::kReadWrite));
  const auto made = create(user, "top/data/sub", wire::kOpenWrite | wire::kOpenTemporary);
  ASSERT_OK(made);
  wire::NamePath temporary;
  temporary.start = made->object.attributes.handle;
  EXPECT_OK(getattr(user, temporary.start));
  EXPECT_OK(link(user, temporary, "top/data/named"));
  EXPECT_OK(close_file(user, temporary.start, Rights::kWrite));
  EXPECT_OK(getattr(user, temporary.start));
}

TEST_F(ConfinedKeys, ASymbolicLinkLeadsNowhereElse) {
  ASSERT_OK(symlink(user, "../other/g", "top/data/out"));
  ASSERT_OK(symlink(user, "/top/data/sub", "top/data/in"));
  const auto follow = [this](std::string path) {
    wire::LookupRequest request;
    request.where = at(std::move(path), wire::NamePath::kFollowLast | wire::NamePath::kRootedLinks);
    return asked<wire::ObjectReply>(user, request, no_id());
  };
  EXPECT_ERRC(follow("top/data/out"), Errc::kPermissionDenied);
  EXPECT_OK(follow("top/data/in/f"));
  EXPECT_OK(stat(user, "top/data/out"));  // the link itself
}

/// Io servers answer such a key only with a capability, so the meta server asks for the sizes of files that are
/// written.
TEST_F(ConfinedKeys, TheMetaServerShowsTheSizeOfAFileThatIsBeingWritten) {
  ASSERT_OK(open_file(operators, "top/data/f", wire::kOpenWrite));
  ASSERT_TRUE(write(operators, inside, 777)) << "the operator cannot write";
  const auto seen = stat(user, "top/data/f");
  ASSERT_OK(seen);
  EXPECT_TRUE(knows_size(*seen)) << "of a file that is open for writing";
  EXPECT_EQ(seen->size, 777U);
  TestClient free = holder(key_of(7));
  EXPECT_FALSE(knows_size(*stat(free, "top/data/f")));
  wire::LookupLeaseRequest leased;
  leased.where = at("top/data/f");
  const auto object = asked<wire::LookupLeaseReply>(user, leased, no_id());
  ASSERT_OK(object);
  EXPECT_EQ(object->object->attributes.size, 777U);
  EXPECT_FALSE(is_granted(*object)) << "the size changes without a recall";
}

TEST_F(ConfinedKeys, WithoutItsDirectoryAKeyIsGoodForNothing) {
  ASSERT_OK(rename(operators, "top/data/f", "top/f"));
  ASSERT_OK(rename(operators, "top/data/sub", "top/sub"));
  ASSERT_OK(remove_directory(operators, "top/data"));
  for (const char* path : {"", "top", "top/data", "top/other"})
    EXPECT_ERRC(stat(user, path), Errc::kPermissionDenied) << path;
  EXPECT_ERRC(getattr(user, data), Errc::kStaleHandle);
}

/// A store of an older version does not know the parents of files: they are outside until fsck has filled them in.
TEST_F(ConfinedKeys, AFileWithoutAKnownParentIsOutside) {
  InodeRecord old = inode(inside);
  old.parent = Handle();
  job::Transaction transaction = context.begin();
  transaction.put(inode_key(inside), encoded(old));
  const auto commit = [](job::Transaction& change) -> job::Task<Errc> {
    const auto done = co_await change.commit(trove::Durability::kProcess);
    co_return done.status;
  };
  ASSERT_EQ(run(commit(transaction)), Errc::kOk);
  EXPECT_ERRC(stat(user, "top/data/f"), Errc::kPermissionDenied);
  EXPECT_OK(list(user, data));
}

}  // namespace
}  // namespace spate::meta
