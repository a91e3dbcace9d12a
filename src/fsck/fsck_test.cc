// SPDX-License-Identifier: Apache-2.0
// Counts of names, and the texts of findings. tests/fsck tests the check as a whole.

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/expect.h"
#include "fsck/links.h"
#include "fsck/texts.h"

namespace spate::fsck {
namespace {

using wire::Damage;

wire::InodeFact inode(std::uint64_t handle, std::uint32_t links, FileType type = FileType::kRegular) {
  wire::InodeFact fact;
  fact.handle = Handle(handle);
  fact.link_count = links;
  fact.type = type;
  fact.version = handle * 10;
  return fact;
}

TEST(LinkTable, ReportsInodesWithAWrongLinkCount) {
  LinkTable table(4096);
  ASSERT_TRUE(table.add(inode(1, 5, FileType::kDirectory)));  // the root
  ASSERT_TRUE(table.add(inode(3, 1)));
  ASSERT_TRUE(table.add(inode(4, 2)));
  ASSERT_TRUE(table.add(inode(6, 9, FileType::kDirectory)));
  ASSERT_TRUE(table.add(inode(7, 2, FileType::kDirectory)));
  ASSERT_TRUE(table.add(inode(8, 0)));
  ASSERT_TRUE(table.add(inode(9, 3)));
  for (const std::uint64_t handle : {3U, 4U, 6U, 6U, 2U, 999U, 9U, 9U, 9U}) table.count(Handle(handle));
  std::map<std::uint64_t, std::uint32_t> names;
  for (const Linked& linked : table.take_suspects()) {
    EXPECT_EQ(linked.version, linked.handle.value * 10);
    names[linked.handle.value] = linked.names;
  }
  EXPECT_EQ(names, (std::map<std::uint64_t, std::uint32_t>{{4, 1}, {6, 2}, {7, 0}, {8, 0}}));
  EXPECT_TRUE(table.empty());
}

TEST(LinkTable, IsBoundedAndAcceptsOnlyAscendingHandles) {
  LinkTable table(3 * sizeof(Linked));
  EXPECT_TRUE(table.add(inode(5, 1)));
  EXPECT_FALSE(table.add(inode(5, 1)));
  EXPECT_FALSE(table.add(inode(4, 1)));
  EXPECT_FALSE(table.full());
  EXPECT_TRUE(table.add(inode(6, 1)));
  EXPECT_TRUE(table.add(inode(9, 1)));
  EXPECT_TRUE(table.full());
  EXPECT_EQ(table.first(), Handle(5));
  EXPECT_EQ(table.last(), Handle(9));
}

std::vector<Damage> all_damages() {
  return {
#define SPATE_TEST_DAMAGE(id, number, text) Damage::k##id,
      SPATE_DAMAGES(SPATE_TEST_DAMAGE)
#undef SPATE_TEST_DAMAGE
  };
}

TEST(Texts, EachKindOfDamageHasItsOwnTextAndALineInTheDocs) {
  std::ifstream in(std::string(SPATE_SOURCE_DIR) + "/docs/fsck.md");
  std::stringstream docs;
  docs << in.rdbuf();
  std::set<std::string> complaints;
  for (const Damage damage : all_damages()) {
    Report report;
    report.finding.damage = damage;
    report.finding.handle = Handle(7);
    report.finding.directory = Handle(3);
    report.finding.name = "name";
    const std::string name(wire::damage_name(damage));
    EXPECT_TRUE(complaints.insert(complaint(report)).second) << name;
    EXPECT_EQ(complaint(report).find("does not know"), std::string::npos) << name;
    EXPECT_NE(docs.str().find("`" + name + "`"), std::string::npos) << name << " is not in docs/fsck.md";
  }
  Report report;
  report.finding.damage = static_cast<Damage>(9999);
  EXPECT_NE(complaint(report).find("does not know"), std::string::npos);
}

TEST(Texts, ANameCannotControlTheTerminal) {
  Report report;
  report.finding.damage = Damage::kDanglingEntry;
  report.path = "/a/\x1b[2J\nb\\";
  EXPECT_EQ(subject(report), "spate:/a/\\x1b[2J\\x0ab\\x5c");
}

TEST(Texts, ADatafileIsNamedByItsPathInTheTarget) {
  Report report;
  report.finding.damage = Damage::kOrphanDatafile;
  report.finding.handle = Handle(7);
  report.finding.slot = {0, TargetId(513)};
  report.finding.actual = 10;
  EXPECT_EQ(subject(report), "target 513, d/3d/0000000000000007.0");
}

TEST(Summary, ExitCodesAddUpLikeFsck) {
  Summary summary;
  EXPECT_EQ(summary.exit_code(), 0);
  summary.repaired = 3;
  EXPECT_EQ(summary.exit_code(), 1);
  summary.left = 1;
  EXPECT_EQ(summary.exit_code(), 5);
  summary.unchecked = {"server 3"};
  EXPECT_EQ(summary.exit_code(), 13);
}

}  // namespace
}  // namespace spate::fsck
