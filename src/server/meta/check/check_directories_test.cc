// SPDX-License-Identifier: Apache-2.0
// Damage of the tree of directories: missing ones, wrong parents, second names, loops.
#include "base/expect.h"
#include "server/meta/check/check_test.h"

namespace spate::meta {
namespace {

using CheckDirectories = CheckTest;

TEST_F(CheckDirectories, AMissingDirectoryIsMadeAgainInItsPlace) {
  const Handle a = make_directory("a");
  const Handle b = make_directory("a/b");
  make_directory("a/b/c");
  const Handle inside = file("a/b/f");
  erase(inode_key(b));
  auto findings = check();
  ASSERT_EQ(findings.size(), 2U);  // one for the entry that leads to it, one for its own entries
  const auto placed =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.directory != Handle(); });
  ASSERT_NE(placed, findings.end());
  EXPECT_EQ(placed->damage, Damage::kMissingDirectory);
  mend(*placed);
  EXPECT_EQ(handle_at("a/b/f"), inside);
  EXPECT_EQ(inode(b).parent, a);
  EXPECT_EQ(inode(b).attributes.size, 2U);
  EXPECT_EQ(inode(b).attributes.link_count, 3U);
  EXPECT_EQ(inode(b).attributes.mode, 0700U);
}

TEST_F(CheckDirectories, AMissingDirectoryWithoutANameGoesToLostFound) {
  make_directory("a");
  const Handle b = make_directory("a/b");
  const Handle inside = file("a/b/f");
  erase(inode_key(b));
  erase(key_of(handle_at("a"), "b"));
  change_inode(handle_at("a"), [](InodeRecord& a) {
    a.attributes.size = 0;
    a.attributes.link_count = 2;
  });
  const Finding finding = only(Damage::kMissingDirectory);
  EXPECT_EQ(finding.handle, b);
  const std::string path = "/lost+found/#" + std::to_string(b.value);
  EXPECT_EQ(mend(finding).path, path);
  EXPECT_EQ(handle_at(path + "/f"), inside);
}

TEST_F(CheckDirectories, TheRootIsMadeAgain) {
  const Handle inside = file("f");
  erase(inode_key(kRootHandle));
  const Finding finding = only(Damage::kMissingDirectory);
  mend(finding);
  EXPECT_EQ(handle_at("f"), inside);
  EXPECT_EQ(inode(kRootHandle).parent, kRootHandle);
}

TEST_F(CheckDirectories, EntriesBelowANonDirectoryAreFound) {
  const Handle f = file("f");
  const Handle g = file("g");
  put(key_of(f, "x"), EntryRecord{g, FileType::kRegular});
  const auto findings = check();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].damage, Damage::kMissingDirectory);
  const auto reply = repair(findings[0], true);
  EXPECT_EQ(reply.outcome, RepairOutcome::kLeft);
  EXPECT_NE(reply.note.find("no directory"), std::string::npos);
}

TEST_F(CheckDirectories, WrongParent) {
  make_directory("a");
  const Handle b = make_directory("b");
  const Handle c = make_directory("b/c");
  change_inode(c, [&](InodeRecord& inode) { inode.parent = handle_at("a"); });
  const Finding finding = only(Damage::kWrongParent);
  EXPECT_EQ(repair(finding, false).path, "/b/c");
  mend(finding);
  EXPECT_EQ(inode(c).parent, b);
}

TEST_F(CheckDirectories, ASecondNameOfADirectoryElsewhereIsRemoved) {
  const Handle a = make_directory("a");
  const Handle b = make_directory("b");
  const Handle c = make_directory("a/c");
  put(key_of(b, "again"), EntryRecord{c, FileType::kDirectory});
  change_inode(b, [](InodeRecord& inode) {
    inode.attributes.size = 1;
    inode.attributes.link_count = 3;
  });
  mend(only(Damage::kWrongParent));
  EXPECT_EQ(inode(c).parent, a);
  EXPECT_EQ(handle_at("a/c"), c);
  EXPECT_EQ(handle_at("b/again").value, 0U);
}

TEST_F(CheckDirectories, ASecondNameOfADirectoryBesideItIsRemoved) {
  const Handle c = make_directory("c");
  put(key_of(kRootHandle, "again"), EntryRecord{c, FileType::kDirectory});
  change_inode(kRootHandle, [](InodeRecord& root) {
    root.attributes.size = 2;
    root.attributes.link_count = 4;
  });
  Finding finding;
  finding.damage = Damage::kSecondName;
  finding.handle = c;
  finding.directory = kRootHandle;
  finding.name = "again";
  mend(finding);
  EXPECT_EQ(handle_at("c"), c);
  finding.name = "c";  // its last name stays
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kGone);
}

TEST_F(CheckDirectories, ALoopOfDirectoriesIsCut) {
  const Handle a = make_directory("a");
  const Handle b = make_directory("a/b");
  const Handle c = make_directory("a/b/c");
  const Handle deep = file("a/b/c/f");
  // Moves a below c.
  erase(key_of(kRootHandle, "a"));
  change_inode(kRootHandle, [](InodeRecord& root) {
    root.attributes.size = 0;
    root.attributes.link_count = 2;
  });
  put(key_of(c, "a"), EntryRecord{a, FileType::kDirectory});
  change_inode(c, [](InodeRecord& inode) {
    inode.attributes.size = 2;
    inode.attributes.link_count = 3;
  });
  change_inode(a, [&](InodeRecord& inode) { inode.parent = c; });
  const Finding finding = only(Damage::kDirectoryLoop);
  EXPECT_EQ(finding.handle, a);
  const auto reply = mend(finding);
  EXPECT_EQ(handle_at(reply.path + "/b/c/f"), deep);
  EXPECT_EQ(inode(b).parent, a);
}

TEST_F(CheckDirectories, ADirectoryThatIsItsOwnParent) {
  const Handle a = make_directory("a");
  erase(key_of(kRootHandle, "a"));
  change_inode(kRootHandle, [](InodeRecord& root) {
    root.attributes.size = 0;
    root.attributes.link_count = 2;
  });
  put(key_of(a, "a"), EntryRecord{a, FileType::kDirectory});
  change_inode(a, [&](InodeRecord& inode) {
    inode.parent = a;
    inode.attributes.size = 1;
    inode.attributes.link_count = 3;
  });
  const auto reply = mend(only(Damage::kDirectoryLoop));
  EXPECT_EQ(handle_at(reply.path), a);
  EXPECT_EQ(inode(a).attributes.size, 0U);
}

}  // namespace
}  // namespace spate::meta
