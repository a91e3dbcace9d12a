// SPDX-License-Identifier: Apache-2.0
// Effects of the operations on objects: link counts, times, versions, sizes, layouts.
#include <gmock/gmock.h>

#include <optional>
#include <set>

#include "base/expect.h"
#include "dist/registry.h"
#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

Attributes attributes(User& user, const std::string& path) {
  auto reply = user.stat(path);
  EXPECT_OK(reply) << path;
  return reply ? reply->attributes : Attributes{};
}

job::Task<std::optional<Bytes>> stored(TestFs& fs, StoreKey key) {
  job::Transaction transaction = fs.context.begin();
  auto got = co_await transaction.get(key);
  co_return std::move(got.value);
}

TEST(MetaNames, ANewFileSystemHasARoot) {
  TestFs fs;
  ASSERT_OK(fs.started);
  User user(fs, alice());
  const Attributes root = attributes(user, "");
  EXPECT_EQ(root.handle, kRootHandle);
  EXPECT_EQ(root.type, FileType::kDirectory);
  EXPECT_EQ(root.link_count, 2U);
  EXPECT_EQ(root.size, 0U);
  EXPECT_EQ(attributes(user, "..").handle, kRootHandle);
}

TEST(MetaNames, DirectoriesCountEntriesAndSubdirectories) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  ASSERT_OK(user.mkdir("d/sub"));
  ASSERT_OK(user.create("d/file"));
  EXPECT_EQ(attributes(user, "d").size, 2U);
  EXPECT_EQ(attributes(user, "d").link_count, 3U);
  EXPECT_EQ(attributes(user, "").link_count, 3U);
  EXPECT_EQ(attributes(user, "d/sub/..").handle, attributes(user, "d").handle);
  ASSERT_OK(user.rmdir("d/sub"));
  ASSERT_OK(user.unlink("d/file"));
  EXPECT_EQ(attributes(user, "d").size, 0U);
  EXPECT_EQ(attributes(user, "d").link_count, 2U);
  ASSERT_OK(user.rmdir("d"));
  EXPECT_EQ(attributes(user, "").link_count, 2U);
}

TEST(MetaNames, ChangingADirectoryTouchesIt) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  const Attributes before = attributes(user, "d");
  fs.clock.advance(std::chrono::seconds(1));
  ASSERT_OK(user.create("d/file"));
  const Attributes after = attributes(user, "d");
  EXPECT_EQ(after.mtime.ns, before.mtime.ns + 1'000'000'000);
  EXPECT_EQ(after.ctime, after.mtime);
  EXPECT_EQ(after.atime, before.atime);
  EXPECT_GT(after.version, before.version);
  EXPECT_EQ(attributes(user, "d/file").btime, after.mtime);
}

TEST(MetaNames, HardLinksShareOneInode) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.create_written("a"));
  const Attributes first = attributes(user, "a");
  fs.clock.advance(std::chrono::seconds(1));
  ASSERT_OK(user.link("a", "b"));
  const Attributes second = attributes(user, "b");
  EXPECT_EQ(second.handle, first.handle);
  EXPECT_EQ(second.link_count, 2U);
  EXPECT_GT(second.ctime, first.ctime);
  EXPECT_EQ(second.mtime, first.mtime);
  const auto unlinked = user.unlink("a");
  ASSERT_OK(unlinked);
  EXPECT_EQ(unlinked->attributes.link_count, 1U);
  EXPECT_THAT(fs.fakes.removals.handles, testing::IsEmpty());
  const auto last = user.unlink("b");
  ASSERT_OK(last);
  EXPECT_EQ(last->attributes.link_count, 0U);
  EXPECT_EQ(fs.fakes.removals.handles, std::vector<Handle>{first.handle});
  EXPECT_ERRC(user.getattr(first.handle), Errc::kStaleHandle);
}

TEST(MetaNames, AnOpenFileStaysWithoutAName) {
  TestFs fs;
  User user(fs, alice());
  const auto opened = user.create("a", 0644, wire::kOpenRead | wire::kOpenExclusive);
  ASSERT_OK(opened);
  EXPECT_EQ(opened->capability.rights, Rights::kRead);
  const Handle handle = opened->object.attributes.handle;
  ASSERT_OK(user.unlink("a"));
  EXPECT_THAT(fs.fakes.removals.handles, testing::IsEmpty());
  const auto orphan = user.getattr(handle);
  ASSERT_OK(orphan);
  EXPECT_EQ(orphan->attributes.link_count, 0U);
  // The file cannot get a name again.
  wire::LinkRequest request;
  request.existing.start = handle;
  request.where = at("b");
  EXPECT_ERRC(user.ask<wire::ObjectReply>(request), Errc::kNotFound);
}

TEST(MetaNames, ARemovedFileLeavesItsDatafilesToBeRemoved) {
  TestFs fs;
  User user(fs, alice());
  const auto created = user.create_written("a");
  ASSERT_OK(created);
  ASSERT_OK(user.setxattr("a", "user.k", "v"));
  const Handle handle = created->attributes.handle;
  ASSERT_OK(user.unlink("a"));
  const auto record = fs.run(stored(fs, removal_key(handle)));
  ASSERT_NE(record, std::nullopt);
  EXPECT_EQ(decode_record<RemovalRecord>(*record)->layout, *created->layout);
  EXPECT_EQ(fs.run(stored(fs, xattr_key(handle, "user.k"))), std::nullopt);
  // A symbolic link has no access control list.
  ASSERT_OK(user.symlink("a", "l"));
  ASSERT_OK(user.unlink("l"));
  EXPECT_EQ(fs.fakes.removals.handles.size(), 1U);
}

TEST(MetaNames, AFileThatNobodyCouldWriteLeavesNothingToBeRemoved) {
  TestFs fs;
  User user(fs, alice());
  const auto created = user.create("a", 0644, wire::kOpenRead | wire::kOpenExclusive);
  ASSERT_OK(created);
  const Handle handle = created->object.attributes.handle;
  wire::CloseRequest close;
  close.handle = handle;
  close.rights = Rights::kRead;
  ASSERT_OK(user.ask<wire::ObjectReply>(close));
  ASSERT_OK(user.unlink("a"));
  EXPECT_EQ(fs.run(stored(fs, removal_key(handle))), std::nullopt);
  EXPECT_EQ(fs.run(stored(fs, inode_key(handle))), std::nullopt);
  EXPECT_THAT(fs.fakes.removals.handles, testing::IsEmpty());
}

TEST(MetaNames, CreateOpensAFileThatExists) {
  TestFs fs;
  User user(fs, alice());
  const auto made = user.create("a", 0644, wire::kOpenRead | wire::kOpenWrite);
  ASSERT_OK(made);
  EXPECT_TRUE(made->created) << "an existing file was opened";
  EXPECT_FALSE(knows_size(made->object.attributes));
  const auto opened = user.create("a", 0600, wire::kOpenRead);
  ASSERT_OK(opened);
  EXPECT_FALSE(opened->created) << "another file was created";
  EXPECT_EQ(opened->object.attributes.handle, made->object.attributes.handle);
  EXPECT_EQ(opened->object.attributes.mode, 0644U);
}

TEST(MetaNames, CreateThroughADanglingLinkMakesItsTarget) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  ASSERT_OK(user.symlink("d/target", "l"));
  const auto made = user.create("l", 0644, wire::kOpenRead, wire::NamePath::kFollowLast);
  ASSERT_OK(made);
  EXPECT_TRUE(made->created) << "an existing file was opened";
  EXPECT_EQ(attributes(user, "d/target").handle, made->object.attributes.handle);
}

TEST(MetaNames, AnAbsoluteLinkReturnsItsTargetAndTheRestOfThePath) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.symlink("/else/where", "l"));
  const auto through = user.stat("l/file");
  ASSERT_ERRC(through, Errc::kCrossDevice);
  EXPECT_EQ(through.error().context(), "/else/where/file");
  EXPECT_EQ(user.stat("l", wire::NamePath::kFollowLast).error().context(), "/else/where");
}

TEST(MetaNames, FortyLinksAreFollowedAndNoMore) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("l0"));
  for (int i = 1; i <= 41; ++i) ASSERT_OK(user.symlink("l" + std::to_string(i - 1), "l" + std::to_string(i)));
  EXPECT_OK(user.stat("l40/."));
  EXPECT_ERRC(user.stat("l41/."), Errc::kSymlinkLoop);
}

TEST(MetaNames, RenameMovesAFile) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("a"));
  ASSERT_OK(user.mkdir("b"));
  ASSERT_OK(user.create("a/f"));
  const Attributes before = attributes(user, "a/f");
  ASSERT_OK(user.rename("a/f", "b/g"));
  EXPECT_ERRC(user.stat("a/f"), Errc::kNotFound);
  EXPECT_EQ(attributes(user, "b/g").handle, before.handle);
  EXPECT_EQ(attributes(user, "a").size, 0U);
  EXPECT_EQ(attributes(user, "b").size, 1U);
}

TEST(MetaNames, RenameReplaces) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.create("f"));
  ASSERT_OK(user.create_written("g"));
  const Handle gone = attributes(user, "g").handle;
  ASSERT_OK(user.rename("f", "g"));
  EXPECT_EQ(attributes(user, "").size, 1U);
  EXPECT_EQ(fs.fakes.removals.handles, std::vector<Handle>{gone});
}

TEST(MetaNames, RenameMovesADirectoryWithItsParent) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("a"));
  ASSERT_OK(user.mkdir("b"));
  ASSERT_OK(user.mkdir("a/d"));
  ASSERT_OK(user.mkdir("b/d"));
  ASSERT_OK(user.rename("a/d", "b/d"));  // replaces an empty directory
  EXPECT_EQ(attributes(user, "a").link_count, 2U);
  EXPECT_EQ(attributes(user, "b").link_count, 3U);
  EXPECT_EQ(attributes(user, "b").size, 1U);
  EXPECT_EQ(attributes(user, "b/d/..").handle, attributes(user, "b").handle);
  ASSERT_OK(user.rename("b/d", "b/e"));
  EXPECT_EQ(attributes(user, "b").link_count, 3U);
}

TEST(MetaNames, RenameExchanges) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("a"));
  ASSERT_OK(user.mkdir("b"));
  ASSERT_OK(user.mkdir("a/d"));
  ASSERT_OK(user.create("b/f"));
  const Handle directory = attributes(user, "a/d").handle;
  const Handle file = attributes(user, "b/f").handle;
  ASSERT_OK(user.rename("a/d", "b/f", wire::kRenameExchange));
  EXPECT_EQ(attributes(user, "b/f").handle, directory);
  EXPECT_EQ(attributes(user, "a/d").handle, file);
  EXPECT_EQ(attributes(user, "a").link_count, 2U);
  EXPECT_EQ(attributes(user, "b").link_count, 3U);
  EXPECT_EQ(attributes(user, "b/f/..").handle, attributes(user, "b").handle);
  EXPECT_THAT(fs.fakes.removals.handles, testing::IsEmpty());
}

TEST(MetaNames, RenameBetweenTwoNamesOfOneFileDoesNothing) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.create("a"));
  ASSERT_OK(user.link("a", "b"));
  ASSERT_OK(user.rename("a", "b"));
  EXPECT_EQ(attributes(user, "a").link_count, 2U);
  EXPECT_EQ(attributes(user, "b").link_count, 2U);
}

TEST(MetaNames, HandlesAreNeverGivenOutTwice) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.create("a"));
  const Handle first = attributes(user, "a").handle;
  ASSERT_OK(user.unlink("a"));
  fs.crash();
  fs.open(test_options());
  ASSERT_OK(fs.started);
  ASSERT_OK(user.create("a"));
  EXPECT_GT(attributes(user, "a").handle, first);
}

TEST(MetaNames, DistributionsComeFromTheRequestAndTheDirectory) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  EXPECT_ERRC(user.setxattr("d", "user.spate.distribution", "striped"), Errc::kInvalidArgument);
  ASSERT_OK(user.setxattr("d", "user.spate.distribution", "varstrip:64K,1M"));
  EXPECT_EQ(*user.getxattr("d", "user.spate.distribution"), "varstrip:64 KiB,1 MiB");
  ASSERT_OK(user.mkdir("d/sub"));
  const auto hinted = user.create("d/sub/file");
  ASSERT_OK(hinted);
  EXPECT_EQ(hinted->object.layout->slots.size(), 2U);
  EXPECT_EQ(describe(hinted->object.layout->distribution), "varstrip:64 KiB,1 MiB");
  wire::CreateRequest request;
  request.where = at("d/asked");
  request.open_flags = wire::kOpenDistribution;
  request.layout.distribution = *parse_distribution("basic");
  const auto asked = user.ask<wire::OpenReply>(request);
  ASSERT_OK(asked);
  EXPECT_EQ(asked->object.layout->slots.size(), 1U);
  EXPECT_EQ(describe(asked->object.layout->distribution), "basic");
  request.where = at("d/not");
  request.layout.targets = {TargetId(256), TargetId(512)};
  EXPECT_ERRC(user.ask<wire::OpenReply>(request), Errc::kInvalidArgument) << "basic has one slot";
  ASSERT_OK(user.removexattr("d", "user.spate.distribution"));
  EXPECT_EQ(describe(user.create("d/usual")->object.layout->distribution), "simple_stripe");
}

TEST(MetaNames, LayoutsComeFromTheRequestTheDirectoryTheFileSystem) {
  TestFs fs;
  User user(fs, alice());
  const auto usual = user.create("usual");
  EXPECT_EQ(usual->object.layout->slots.size(), 4U);
  EXPECT_EQ(usual->object.layout->strip_bytes, 1U << 20U);
  ASSERT_OK(user.mkdir("d"));
  ASSERT_OK(user.setxattr("d", "user.spate.strip_bytes", "64 KiB"));
  ASSERT_OK(user.setxattr("d", "user.spate.strip_count", "2"));
  ASSERT_OK(user.setxattr("d", "user.spate.first_target", "768"));
  ASSERT_OK(user.mkdir("d/sub"));
  const auto hinted = user.create("d/sub/file");
  EXPECT_EQ(hinted->object.layout->strip_bytes, 65536U);
  ASSERT_EQ(hinted->object.layout->slots.size(), 2U);
  EXPECT_EQ(hinted->object.layout->slots[0].targets[0], TargetId(768));
  EXPECT_EQ(hinted->object.layout->slots[1].targets[0], TargetId(1024));
  EXPECT_EQ(*user.getxattr("d/sub/file", "user.spate.layout"),
            "generation=1 distribution=simple_stripe strip_bytes=65536 slots=768,1024");
  wire::CreateRequest request;
  request.where = at("d/asked");
  request.layout.targets = {TargetId(512), TargetId(256)};
  const auto asked = user.ask<wire::OpenReply>(request);
  ASSERT_OK(asked);
  EXPECT_EQ(asked->object.layout->strip_bytes, 65536U);
  EXPECT_EQ(asked->object.layout->slots[0].targets[0], TargetId(512));
  request.where = at("d/not");
  request.layout.targets = {TargetId(512), TargetId(512)};
  EXPECT_ERRC(user.ask<wire::OpenReply>(request), Errc::kInvalidArgument);
  request.layout.targets = {TargetId(5)};
  EXPECT_ERRC(user.ask<wire::OpenReply>(request), Errc::kInvalidArgument);
}

TEST(MetaNames, FilesBeginOnOneTargetAfterTheOther) {
  MetaOptions options = test_options();
  options.strip_count = 1;
  TestFsOptions with;
  with.meta = options;
  TestFs fs(with);
  User user(fs, alice());
  std::set<TargetId> first;
  for (int i = 0; i < 4; ++i) first.insert(user.create("f" + std::to_string(i))->object.layout->slots[0].targets[0]);
  EXPECT_EQ(first.size(), 4U);
}

TEST(MetaNames, StatfsCountsObjects) {
  TestFs fs;
  User user(fs, alice());
  EXPECT_EQ(user.statfs()->objects, 1U);
  ASSERT_OK(user.mkdir("d"));
  ASSERT_OK(user.create_written("d/f"));
  EXPECT_ERRC(user.mkdir("d"), Errc::kExists);
  EXPECT_EQ(user.statfs()->objects, 3U);
  ASSERT_OK(user.unlink("d/f"));
  EXPECT_EQ(user.statfs()->objects, 2U);
  EXPECT_EQ(user.statfs()->removals, 1U);
  fs.close();
  fs.open(test_options());
  EXPECT_EQ(user.statfs()->objects, 2U);  // from the stored count
  ASSERT_OK(user.create("f"));
  fs.crash();
  fs.open(test_options());
  ASSERT_OK(user.create("g"));
  EXPECT_EQ(user.statfs()->objects, 4U);  // counted again
}

}  // namespace
}  // namespace spate::meta
