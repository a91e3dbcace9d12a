// SPDX-License-Identifier: Apache-2.0
// Extended attributes of the name space.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/testing/fs_test.h"
#include "wire/xattr_messages.h"

namespace spate::meta {
namespace {

TEST(MetaXattrs, XattrsAreKeptListedAndRemoved) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.create("f"));
  const std::uint64_t before = user.stat("f")->attributes.version;
  ASSERT_OK(user.setxattr("f", "user.b", "two"));
  ASSERT_OK(user.setxattr("f", "user.a", std::string("o\0e", 3)));
  EXPECT_EQ(*user.getxattr("f", "user.a"), std::string("o\0e", 3));
  EXPECT_EQ(*user.listxattr("f"), (std::vector<std::string>{"user.a", "user.b"}));
  EXPECT_GT(user.stat("f")->attributes.version, before);
  EXPECT_ERRC(user.setxattr("f", "user.a", "x", wire::kXattrCreate), Errc::kExists);
  ASSERT_OK(user.setxattr("f", "user.a", "", wire::kXattrReplace));
  EXPECT_EQ(*user.getxattr("f", "user.a"), "");
  ASSERT_OK(user.removexattr("f", "user.a"));
  EXPECT_EQ(*user.listxattr("f"), std::vector<std::string>{"user.b"});
  ASSERT_OK(user.mkdir("d"));
  ASSERT_OK(user.setxattr("d", "user.spate.strip_count", "3"));
  EXPECT_EQ(*user.listxattr("d"), std::vector<std::string>{"user.spate.strip_count"});
  ASSERT_OK(user.removexattr("d", "user.spate.strip_count"));
  EXPECT_THAT(*user.listxattr("d"), testing::IsEmpty());
}

TEST(MetaXattrs, ADirectoryDeterminesTheCopiesOfItsFiles) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  ASSERT_OK(user.setxattr("d", "user.spate.replicas", "2"));
  EXPECT_EQ(*user.getxattr("d", "user.spate.replicas"), "2");
  ASSERT_OK(user.mkdir("d/sub"));
  const auto mirrored = user.create("d/sub/file");
  ASSERT_OK(mirrored);
  EXPECT_EQ(mirrored->object.layout->redundancy, Redundancy::kMirror);
  EXPECT_TRUE(is_group(mirrored->object.layout->slots[0].targets[0])) << "the layout names a target itself";
  EXPECT_EQ(user.create("beside")->object.layout->redundancy, Redundancy::kNone);
  ASSERT_OK(user.setxattr("d/sub", "user.spate.replicas", "1"));
  EXPECT_EQ(user.create("d/sub/single")->object.layout->redundancy, Redundancy::kNone);
  EXPECT_EQ(user.stat("d/sub/file")->layout->redundancy, Redundancy::kMirror) << "an existing file stays as it is";
  ASSERT_OK(user.removexattr("d", "user.spate.replicas"));
  EXPECT_EQ(user.create("d/single")->object.layout->redundancy, Redundancy::kNone);
}

TEST(MetaXattrs, CopiesThatCannotBeKeptAreRefused) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  EXPECT_ERRC(user.setxattr("d", "user.spate.replicas", "0"), Errc::kInvalidArgument);
  EXPECT_ERRC(user.setxattr("d", "user.spate.replicas", "9"), Errc::kInvalidArgument);
  const auto more_than_servers = user.setxattr("d", "user.spate.replicas", "5");
  ASSERT_ERRC(more_than_servers, Errc::kInvalidArgument);
  EXPECT_EQ(more_than_servers.error().context(), "replicas=5 needs as many io servers, and the file system has 4");
}

TEST(MetaXattrs, ADirectoryDeterminesHowManyCopiesAWriteNeeds) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  ASSERT_OK(user.setxattr("d", "user.spate.replicas", "2"));
  ASSERT_OK(user.setxattr("d", "user.spate.strip_count", "1"));
  ASSERT_OK(user.setxattr("d", "user.spate.first_target", "256"));
  const auto group_of = [&](const std::string& path) {
    const auto made = user.create(path);
    EXPECT_OK(made);
    return made ? *fs.core->data_groups().find(made->object.layout->slots[0].targets[0]) : DataGroup();
  };
  EXPECT_EQ(group_of("d/one").min, 1U);
  ASSERT_OK(user.setxattr("d", "user.spate.min_copies", "2"));
  EXPECT_EQ(*user.getxattr("d", "user.spate.min_copies"), "2");
  ASSERT_OK(user.mkdir("d/sub"));
  const DataGroup two = group_of("d/sub/two");
  EXPECT_EQ(two.min, 2U) << "a new directory does not inherit it";
  ASSERT_OK(user.setxattr("d", "user.spate.min_copies", "8"));
  EXPECT_EQ(group_of("d/all").min, 2U) << "a file needs more copies than it has";
  ASSERT_OK(user.removexattr("d", "user.spate.min_copies"));
  EXPECT_EQ(group_of("d/again").min, 1U);
  EXPECT_ERRC(user.setxattr("d", "user.spate.min_copies", "0"), Errc::kInvalidArgument);
  EXPECT_ERRC(user.setxattr("d", "user.spate.min_copies", "9"), Errc::kInvalidArgument);
}

/// `spate cp` within the file system gives a copy the layout of its source.
TEST(MetaXattrs, AFileMayNameTheGroupsOfAnother) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  ASSERT_OK(user.setxattr("d", "user.spate.replicas", "2"));
  const auto source = user.create("d/source");
  ASSERT_OK(source);
  wire::CreateRequest request;
  request.where = at("copy");
  for (const Slot& slot : source->object.layout->slots) request.layout.targets.push_back(slot.targets[0]);
  const auto copy = user.ask<wire::OpenReply>(request);
  ASSERT_OK(copy);
  EXPECT_EQ(copy->object.layout->slots, source->object.layout->slots);
  EXPECT_EQ(copy->object.layout->redundancy, Redundancy::kMirror);
  request.where = at("unknown");
  request.layout.targets = {TargetId(kFirstGroup.value + 999)};
  EXPECT_ERRC(user.ask<wire::OpenReply>(request), Errc::kInvalidArgument);
  request.layout.targets = {source->object.layout->slots[0].targets[0], TargetId(512)};
  EXPECT_ERRC(user.ask<wire::OpenReply>(request), Errc::kInvalidArgument);
}

TEST(MetaXattrs, XattrsOfOneObjectAreBounded) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.create("many"));
  Errc last = Errc::kOk;
  int count = 0;
  for (; count < 2000 && last == Errc::kOk; ++count)
    last = user.setxattr("many", "user.n" + std::to_string(count), "").code();
  EXPECT_EQ(last, Errc::kNoSpace);
  EXPECT_EQ(user.listxattr("many")->size(), 512U);
  ASSERT_OK(user.removexattr("many", "user.n0"));
  EXPECT_OK(user.setxattr("many", "user.again", ""));
  ASSERT_OK(user.create("large"));
  const std::string value(65536, 'v');
  for (int i = 0; i < 15; ++i) ASSERT_OK(user.setxattr("large", "user.n" + std::to_string(i), value));
  EXPECT_ERRC(user.setxattr("large", "user.toomuch", value), Errc::kNoSpace);
  ASSERT_OK(user.setxattr("large", "user.n0", ""));  // a replaced value frees its room
  EXPECT_OK(user.setxattr("large", "user.toomuch", value));
}

}  // namespace
}  // namespace spate::meta
