// SPDX-License-Identifier: Apache-2.0
// Access control lists: their format, the rights that they grant, chmod, inheritance. tests/frontends compares them
// with the kernel's.
#include "server/meta/store/acl.h"

#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/names/xattr_names.h"
#include "server/meta/store/access.h"
#include "server/meta/testing/fs_test.h"
#include "wire/xattr_messages.h"

namespace spate::meta {
namespace {

constexpr std::uint32_t kNone = ~0U;

Acl list(std::uint16_t owner, std::uint16_t bob_may, std::uint16_t group, std::uint16_t mask, std::uint16_t others) {
  return {{AclEntry::kOwner, owner, kNone},
          {AclEntry::kUser, bob_may, kBob},
          {AclEntry::kOwningGroup, group, kNone},
          {AclEntry::kMask, mask, kNone},
          {AclEntry::kOthers, others, kNone}};
}

TEST(AclForm, DecodeReversesEncode) {
  const Acl acl = list(7, 6, 5, 4, 0);
  EXPECT_EQ(*decode_acl(encode_acl(acl)), acl);
  EXPECT_THAT(*decode_acl({}), testing::IsEmpty());
  EXPECT_OK(check_acl(acl));
}

TEST(AclForm, InvalidListsAreRefused) {
  const Bytes good = encode_acl(list(7, 6, 5, 4, 0));
  for (std::size_t cut = 1; cut < good.size(); ++cut) {
    const auto read = decode_acl(ByteView(good).first(cut));
    if (read && !read->empty()) EXPECT_ERRC(check_acl(*read), Errc::kInvalidArgument) << cut;
  }
  Bytes other = good;
  other[0] = std::byte{3};
  EXPECT_ERRC(decode_acl(other), Errc::kNotSupported);
  Acl many = list(7, 6, 5, 4, 0);
  many.resize(kMaxAclEntries + 1, many.back());
  EXPECT_ERRC(decode_acl(encode_acl(many)), Errc::kNoSpace);
  Acl order = list(7, 6, 5, 4, 0);
  std::swap(order[1], order[2]);
  EXPECT_ERRC(check_acl(order), Errc::kInvalidArgument);
  for (std::size_t i = 0; i < 5; ++i) {
    Acl lacking = list(7, 6, 5, 4, 0);
    lacking.erase(lacking.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(check_acl(lacking).has_value(), i == 1) << i;  // only bob's own entry may be missing
  }
}

TEST(AclForm, ADamagedListMakesItsRecordCorrupt) {
  InodeRecord inode;
  inode.attributes.handle = Handle(18);
  inode.attributes.type = FileType::kDirectory;
  inode.parent = kRootHandle;
  inode.acl = list(7, 6, 5, 4, 0);
  Bytes bytes;
  encode_record(inode, bytes);
  ASSERT_OK(decode_record<InodeRecord>(bytes));
  EXPECT_EQ(*decode_record<InodeRecord>(bytes), inode);
  inode.acl.erase(inode.acl.begin());  // the owner's entry is missing
  encode_record(inode, bytes);
  EXPECT_ERRC(decode_record<InodeRecord>(bytes), Errc::kCorrupt);
}

TEST(AclRights, TheMaskLimitsAllButTheOwnerAndOthers) {
  InodeRecord file;
  file.attributes.uid = kAlice;
  file.attributes.gid = kStaff;
  set_access_acl(file, list(6, 7, 7, 4, 1));
  EXPECT_EQ(file.attributes.mode, 0641U);
  EXPECT_TRUE(may(alice(), file, kWantRead | kWantWrite));
  EXPECT_TRUE(may(bob(), file, kWantRead));
  EXPECT_FALSE(may(bob(), file, kWantWrite));
  EXPECT_TRUE(may(stranger(), file, kWantExecute));
  EXPECT_FALSE(may(stranger(), file, kWantRead));
  apply_mode_to_acl(file.acl, 0670);
  file.attributes.mode = 0670;
  EXPECT_TRUE(may(bob(), file, kWantRead | kWantWrite | kWantExecute));
}

TEST(AclRights, AListEquivalentToAModeIsNotStored) {
  InodeRecord file;
  set_access_acl(file,
                 {{AclEntry::kOwner, 7, kNone}, {AclEntry::kOwningGroup, 5, kNone}, {AclEntry::kOthers, 1, kNone}});
  EXPECT_EQ(file.attributes.mode, 0751U);
  EXPECT_THAT(file.acl, testing::IsEmpty());
}

TEST(AclInheritance, IsLimitedByTheModeAndTheUmaskAppliesOnlyWithoutAList) {
  InodeRecord directory;
  directory.attributes.type = FileType::kDirectory;
  InodeRecord file;
  file.attributes.mode = 0666;
  inherit_acl(directory, file, 022);
  EXPECT_EQ(file.attributes.mode, 0644U);
  directory.default_acl = list(7, 6, 5, 6, 5);
  file.attributes.mode = 0660;
  inherit_acl(directory, file, 077);
  EXPECT_EQ(file.attributes.mode, 0660U);
  EXPECT_EQ(file.acl, list(6, 6, 5, 6, 0));
  EXPECT_THAT(file.default_acl, testing::IsEmpty());
  InodeRecord sub;
  sub.attributes.type = FileType::kDirectory;
  sub.attributes.mode = 0700;
  inherit_acl(directory, sub, 0);
  EXPECT_EQ(sub.default_acl, directory.default_acl);
  EXPECT_EQ(sub.attributes.mode, 0700U);
}

/// root's own programs keep setgid. When a mount of root acts for a user, the kernel decides whether setgid is lost.
TEST(AclRights, SettingAListOutsideTheGroupClearsSetgid) {
  TestFs fs;
  User root(fs, Credential{});
  User user(fs, alice());
  const Bytes encoded = encode_acl(list(7, 6, 5, 5, 0));
  const std::string value(as_text(encoded));
  const std::string name(kAccessAclXattr);
  ASSERT_OK(root.create("f", 0755));
  ASSERT_OK(root.chown("f", kAlice, 4711));
  const auto set_by = [&](User& who, std::uint8_t flags) {
    EXPECT_OK(root.chmod("f", 02755));
    EXPECT_OK(who.setxattr("f", name, value, flags));
    return root.stat("f")->attributes.mode & kSetGid;
  };
  EXPECT_EQ(set_by(user, 0), 0U);
  EXPECT_EQ(set_by(root, 0), kSetGid);
  EXPECT_EQ(set_by(root, wire::kXattrKillSetgid), 0U);
  ASSERT_OK(root.chown("f", kAlice, alice().gid));
  EXPECT_EQ(set_by(user, 0), kSetGid);
}

}  // namespace
}  // namespace spate::meta
