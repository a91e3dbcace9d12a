// SPDX-License-Identifier: Apache-2.0
// Permissions: the matrix of rights, sticky and setgid directories, chmod, chown and times.
#include "server/meta/store/access.h"

#include "base/expect.h"
#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

TEST(MetaAccess, TheFirstMatchingClassDecides) {
  InodeRecord file;
  file.attributes.uid = kAlice;
  file.attributes.gid = kStaff;
  const struct {
    std::uint32_t mode;
    Credential who;
    unsigned want;
    bool expected;
  } cases[] = {
      {0700, alice(), 7, true},
      {0070, alice(), 4, false},  // the owner's class decides, though the owner is in the group
      {0007, alice(), 1, false},
      {0070, bob(), 7, true},
      {0007, bob(), 4, false},
      {0007, stranger(), 7, true},
      {0770, stranger(), 1, false},
      {0640, bob(), kWantRead, true},
      {0640, bob(), kWantWrite, false},
      {0640, bob(), kWantRead | kWantWrite, false},
      {0000, root_user(), 6, true},
      {0000, root_user(), kWantExecute, false},
      {0001, root_user(), 7, true},
  };
  for (const auto& c : cases) {
    file.attributes.mode = c.mode;
    EXPECT_EQ(may(c.who, file, c.want), c.expected) << std::oct << c.mode << " uid " << c.who.uid << " want " << c.want;
  }
  file.attributes.type = FileType::kDirectory;
  file.attributes.mode = 0;
  EXPECT_TRUE(may(root_user(), file, kWantExecute));
}

/// The rights on the directory that each operation needs, for a user other than root.
TEST(MetaAccess, OperationsNeedTheirBitsOfTheDirectory) {
  struct Row {
    const char* what;
    unsigned needs;
    std::function<Errc(User&)> act;
  };
  const std::vector<Row> rows = {
      {"lookup", 1, [](User& u) { return u.stat("d/f").code(); }},
      {"setattr", 1, [](User& u) { return u.chmod("d/f", 0600).code(); }},
      {"mkdir", 3, [](User& u) { return u.mkdir("d/new").code(); }},
      {"create", 3, [](User& u) { return u.create("d/new").code(); }},
      {"symlink", 3, [](User& u) { return u.symlink("x", "d/new").code(); }},
      {"link", 3, [](User& u) { return u.link("f", "d/new").code(); }},
      {"unlink", 3, [](User& u) { return u.unlink("d/f").code(); }},
      {"rmdir", 3, [](User& u) { return u.rmdir("d/empty").code(); }},
      {"rename from", 3, [](User& u) { return u.rename("d/f", "g").code(); }},
      {"rename to", 3, [](User& u) { return u.rename("f", "d/g").code(); }},
      {"exchange", 3, [](User& u) { return u.rename("f", "d/f", wire::kRenameExchange).code(); }},
      {"readdir", 4, [](User& u) { return u.readdir(u.stat("d")->attributes.handle).code(); }},
      {"through", 1, [](User& u) { return u.stat("d/empty/.").code(); }},
  };
  for (const Row& row : rows) {
    for (unsigned bits = 0; bits < 8; ++bits) {
      TestFs fs;
      User user(fs, alice());
      ASSERT_OK(user.create("f"));
      ASSERT_OK(user.mkdir("d"));
      ASSERT_OK(user.create("d/f"));
      ASSERT_OK(user.mkdir("d/empty"));
      ASSERT_OK(user.chmod("d", bits << 6U | 077U));
      const Errc expected = (bits & row.needs) == row.needs ? Errc::kOk : Errc::kPermissionDenied;
      EXPECT_EQ(row.act(user), expected) << row.what << " with " << bits;
    }
  }
}

TEST(MetaAccess, AStickyDirectoryProtectsNames) {
  TestFs fs;
  User root(fs, root_user());
  User owner(fs, alice());
  User other(fs, bob());
  ASSERT_OK(root.mkdir("tmp", 01777));
  ASSERT_OK(owner.create("tmp/f", 0666));
  ASSERT_OK(owner.mkdir("tmp/d", 0777));
  ASSERT_OK(other.create("tmp/mine"));
  EXPECT_ERRC(other.unlink("tmp/f"), Errc::kNotPermitted);
  EXPECT_ERRC(other.rmdir("tmp/d"), Errc::kNotPermitted);
  EXPECT_ERRC(other.rename("tmp/f", "tmp/g"), Errc::kNotPermitted);
  EXPECT_ERRC(other.rename("tmp/mine", "tmp/f"), Errc::kNotPermitted);
  EXPECT_ERRC(other.rename("tmp/mine", "tmp/f", wire::kRenameExchange), Errc::kNotPermitted);
  EXPECT_OK(other.rename("tmp/mine", "tmp/yours"));
  EXPECT_OK(root.rename("tmp/f", "tmp/g"));
  EXPECT_OK(owner.unlink("tmp/g"));
  ASSERT_OK(root.chown("tmp", kBob));
  EXPECT_OK(other.rmdir("tmp/d"));  // the directory's owner may do it
}

TEST(MetaAccess, MovingADirectoryNeedsToWriteIt) {
  TestFs fs;
  User root(fs, root_user());
  User user(fs, alice());
  ASSERT_OK(root.chmod("", 0777));
  ASSERT_OK(root.mkdir("a", 0777));
  ASSERT_OK(root.mkdir("a/d", 0755));
  EXPECT_ERRC(user.rename("a/d", "d"), Errc::kPermissionDenied);
  EXPECT_OK(user.rename("a/d", "a/e"));  // its parent does not change
  ASSERT_OK(root.chmod("a/e", 0757));
  EXPECT_OK(user.rename("a/e", "e"));
}

TEST(MetaAccess, ObjectsInheritTheGroupOfSetgidDirectories) {
  TestFs fs;
  User root(fs, root_user());
  User user(fs, alice());
  ASSERT_OK(root.mkdir("d", 0777));
  ASSERT_OK(root.chown("d", 0, 4711));
  ASSERT_OK(root.chmod("d", 02777));
  EXPECT_EQ(user.create("d/f")->object.attributes.gid, 4711U);
  const auto sub = user.mkdir("d/sub");
  EXPECT_EQ(sub->attributes.gid, 4711U);
  EXPECT_EQ(sub->attributes.mode, 02755U);
  // A setgid program of a group that the user is not in.
  EXPECT_EQ(user.create("d/program", 02775)->object.attributes.mode, 0775U);
  EXPECT_EQ(root.create("d/rootprogram", 02775)->object.attributes.mode, 02775U);
  EXPECT_EQ(user.create("f")->object.attributes.gid, kAlice);
}

TEST(MetaAccess, OnlyRootMakesObjectsOfOthers) {
  TestFs fs;
  User user(fs, alice());
  User root(fs, root_user());
  wire::MkdirRequest request;
  request.where = at("d");
  request.attributes.uid = kBob;
  EXPECT_ERRC(user.ask<wire::ObjectReply>(request), Errc::kNotPermitted);
  EXPECT_EQ(root.ask<wire::ObjectReply>(request)->attributes.uid, kBob);
  request.where = at("e");
  request.attributes.uid.reset();
  request.attributes.gid = 4711;
  EXPECT_ERRC(user.ask<wire::ObjectReply>(request), Errc::kNotPermitted);
  request.attributes.gid = kStaff;
  EXPECT_EQ(user.ask<wire::ObjectReply>(request)->attributes.gid, kStaff);
}

TEST(MetaAccess, OnlyRootMakesDevices) {
  TestFs fs;
  User user(fs, alice());
  User root(fs, root_user());
  wire::CreateRequest request;
  request.where = at("node");
  request.type = FileType::kCharDevice;
  request.device = 0x0103;
  EXPECT_ERRC(user.ask<wire::OpenReply>(request), Errc::kNotPermitted);
  EXPECT_EQ(root.ask<wire::OpenReply>(request)->object.attributes.device, 0x0103U);
  request.where = at("fifo");
  request.type = FileType::kFifo;
  EXPECT_OK(user.ask<wire::OpenReply>(request));
}

TEST(MetaAccess, Chmod) {
  TestFs fs;
  User user(fs, alice());
  User other(fs, bob());
  User root(fs, root_user());
  ASSERT_OK(user.create("f"));
  EXPECT_ERRC(other.chmod("f", 0777), Errc::kNotPermitted);
  EXPECT_ERRC(user.chmod("f", 010000), Errc::kInvalidArgument);
  EXPECT_EQ(user.chmod("f", 06755)->attributes.mode, 06755U);
  ASSERT_OK(root.chown("f", std::nullopt, 4711));
  EXPECT_EQ(user.chmod("f", 06755)->attributes.mode, 04755U);  // the owner is not in the group
  EXPECT_EQ(root.chmod("f", 06755)->attributes.mode, 06755U);
  ASSERT_OK(user.symlink("f", "l"));
  EXPECT_ERRC(user.chmod("l", 0777), Errc::kNotSupported);
}

TEST(MetaAccess, Chown) {
  TestFs fs;
  User user(fs, alice());
  User other(fs, bob());
  User root(fs, root_user());
  ASSERT_OK(user.create("f", 06755));
  EXPECT_ERRC(user.chown("f", kBob), Errc::kNotPermitted);
  EXPECT_ERRC(other.chown("f", kBob), Errc::kNotPermitted);
  EXPECT_ERRC(other.chown("f", std::nullopt, kStaff), Errc::kNotPermitted);
  EXPECT_ERRC(user.chown("f", std::nullopt, 4711), Errc::kNotPermitted);
  EXPECT_EQ(user.stat("f")->attributes.mode, 06755U);
  const auto given = user.chown("f", kAlice, kStaff);
  ASSERT_OK(given);
  EXPECT_EQ(given->attributes.gid, kStaff);
  EXPECT_EQ(given->attributes.mode, 0755U);
  ASSERT_OK(root.chmod("f", 06745));  // without group execution, setgid has another meaning
  EXPECT_EQ(root.chown("f", kBob)->attributes.mode, 02745U);
  ASSERT_OK(root.mkdir("d", 06755));
  EXPECT_EQ(root.chown("d", kAlice)->attributes.mode, 06755U);
  wire::SetattrRequest both;  // cp -p does both in one request
  both.uid = kAlice;
  both.mode = 06755;
  EXPECT_EQ(root.setattr("f", both)->attributes.mode, 06755U);
}

TEST(MetaAccess, Times) {
  TestFs fs;
  User user(fs, alice());
  User other(fs, bob());
  ASSERT_OK(user.create("f", 0664));
  ASSERT_OK(user.chown("f", std::nullopt, kStaff));
  wire::SetattrRequest given;
  given.atime = WallTime{5};
  given.mtime = WallTime{-6};
  EXPECT_ERRC(other.setattr("f", given), Errc::kNotPermitted);
  fs.clock.advance(std::chrono::seconds(1));
  const auto set = user.setattr("f", given);
  ASSERT_OK(set);
  EXPECT_EQ(set->attributes.atime, WallTime{5});
  EXPECT_EQ(set->attributes.mtime, WallTime{-6});
  EXPECT_EQ(set->attributes.ctime, fs.clock.wall());
  fs.clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(user.setattr("f", given)->attributes.ctime, fs.clock.wall());  // equal times still count as a change
  wire::SetattrRequest now;
  now.atime_now = now.mtime_now = true;
  EXPECT_EQ(other.setattr("f", now)->attributes.mtime, fs.clock.wall());  // a user with write permission may do it
  ASSERT_OK(user.chmod("f", 0644));
  EXPECT_ERRC(other.setattr("f", now), Errc::kPermissionDenied);
  now.atime_now = false;
  EXPECT_ERRC(other.setattr("f", now), Errc::kNotPermitted);
  given.atime_now = true;
  EXPECT_ERRC(user.setattr("f", given), Errc::kInvalidArgument);
  wire::SetattrRequest birth;
  birth.btime = WallTime{7};
  EXPECT_ERRC(other.setattr("f", birth), Errc::kNotPermitted);
  EXPECT_EQ(user.setattr("f", birth)->attributes.btime, WallTime{7});
}

TEST(MetaAccess, TheMtimeOfAFileBeingWrittenIsTiedToItsDatafiles) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.create("f", 0644, wire::kOpenWrite));
  wire::SetattrRequest request;
  request.mtime = WallTime{5};
  request.data.emplace();
  request.data->change_sum = 17;
  request.data->size = 100;
  const auto told = user.setattr("f", request);
  ASSERT_OK(told);
  EXPECT_EQ(told->attributes.change_sum, 17U);
  EXPECT_FALSE(knows_size(told->attributes));
  EXPECT_EQ(fs.fakes.io.stats, 0);
  request.data.reset();
  fs.fakes.io.data.change_sum = 18;
  EXPECT_EQ(user.setattr("f", request)->attributes.change_sum, 18U);
  EXPECT_EQ(fs.fakes.io.stats, 1);
}

TEST(MetaAccess, Xattrs) {
  TestFs fs;
  User user(fs, alice());
  User other(fs, bob());
  User root(fs, root_user());
  ASSERT_OK(user.create("f", 0600));
  ASSERT_OK(user.setxattr("f", "user.a", "1"));
  EXPECT_ERRC(other.getxattr("f", "user.a"), Errc::kPermissionDenied);
  EXPECT_ERRC(other.setxattr("f", "user.a", "2"), Errc::kPermissionDenied);
  EXPECT_ERRC(other.removexattr("f", "user.a"), Errc::kPermissionDenied);
  EXPECT_OK(other.getxattr("f", "user.spate.layout"));
  EXPECT_ERRC(user.setxattr("f", "trusted.t", "1"), Errc::kNotPermitted);
  ASSERT_OK(root.setxattr("f", "trusted.t", "1"));
  EXPECT_ERRC(user.getxattr("f", "trusted.t"), Errc::kNoAttribute);
  EXPECT_EQ(*user.listxattr("f"), std::vector<std::string>{"user.a"});
  EXPECT_EQ(root.listxattr("f")->size(), 2U);
  ASSERT_OK(user.mkdir("d", 01777));
  EXPECT_ERRC(other.setxattr("d", "user.a", "1"), Errc::kNotPermitted);  // the sticky bit forbids it
  EXPECT_ERRC(other.setxattr("d", "user.spate.strip_count", "1"), Errc::kNotPermitted);
}

}  // namespace
}  // namespace spate::meta
