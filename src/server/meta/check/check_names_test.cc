// SPDX-License-Identifier: Apache-2.0
// Damage of the name space: a scan finds it, a look confirms it, one repair mends it.
#include <gmock/gmock.h>

#include <optional>

#include "base/expect.h"
#include "server/meta/check/check_test.h"
#include "wire/xattr_messages.h"

namespace spate::meta {
namespace {

using CheckNames = CheckTest;

TEST_F(CheckNames, AHealthyTreeHasNoFindingsWhateverThePageSize) {
  make_directory("a");
  make_directory("a/b");
  const Handle file_handle = file("a/b/f", 5000);
  file("a/g", 0);
  ASSERT_OK(create(admin, "open", wire::kOpenWrite));
  wire::LinkRequest link;
  link.existing = at("a/g");
  link.where = at("second");
  ASSERT_OK(asked<wire::LinkReply>(admin, link));
  wire::SetxattrRequest xattr;
  xattr.where = at("a/g");
  xattr.name = "user.colour";
  xattr.value = Bytes(100);
  ASSERT_OK(asked<wire::SetxattrReply>(admin, xattr));
  for (const std::uint32_t size : {1U, 2U, 3U, 1000U}) {
    page_size = size;
    EXPECT_THAT(check(), testing::IsEmpty()) << size;
    const auto inodes = scan(ScanKind::kInodes).inodes;
    ASSERT_EQ(inodes.size(), 6U);
    EXPECT_EQ(inodes.front().handle, kRootHandle);
    const auto entries = scan(ScanKind::kEntries);
    EXPECT_EQ(entries.entries.size(), 6U);
    EXPECT_EQ(entries.records, 6U);
    const auto fact =
        std::find_if(inodes.begin(), inodes.end(), [&](const auto& i) { return i.handle == file_handle; });
    ASSERT_NE(fact, inodes.end());
    EXPECT_EQ(fact->size, 5000U);
    ASSERT_NE(fact->last_slot, std::nullopt);
    EXPECT_EQ(fact->last_slot->slot, 0U);
    EXPECT_EQ(fact->last_bytes, 5000U);
  }
}

TEST_F(CheckNames, FactsCoverTheRequestedRange) {
  const Handle a = file("a");
  const Handle b = file("b");
  file("c");
  wire::MetaScanRequest request;
  request.low = a;
  request.high = b;
  request.names = true;
  const auto entries = scan(ScanKind::kEntries, request).entries;
  ASSERT_EQ(entries.size(), 2U);
  for (const auto& entry : entries) EXPECT_EQ(entry.name, entry.handle == a ? "a" : "b");
  EXPECT_EQ(scan(ScanKind::kInodes, request).inodes.size(), 3U);  // without the root
}

TEST_F(CheckNames, ACursorOfAnotherScanIsRefused) {
  wire::MetaScanRequest request;
  request.what = ScanKind::kInodes;
  request.after = key_of(kRootHandle, "x").bytes();
  EXPECT_ERRC(page(request), Errc::kInvalidArgument);
  request.after = Bytes(5000, std::byte{'i'});
  EXPECT_ERRC(page(request), Errc::kInvalidArgument);
  request.what = static_cast<ScanKind>(77);
  request.after.clear();
  EXPECT_ERRC(page(request), Errc::kNotSupported);
}

TEST_F(CheckNames, DanglingEntry) {
  const Handle a = make_directory("a");
  const Handle lost = file("a/lost");
  file("a/kept");
  erase(inode_key(lost));
  const Finding finding = only(Damage::kDanglingEntry);
  EXPECT_EQ(finding.directory, a);
  EXPECT_EQ(finding.name, "lost");
  EXPECT_EQ(repair(finding, false).path, "/a/lost");
  mend(finding);
  EXPECT_EQ(inode(a).attributes.size, 1U);
  EXPECT_NE(handle_at("a/kept").value, 0U);
  EXPECT_EQ(handle_at("a/lost").value, 0U);
}

TEST_F(CheckNames, AnEntryThatHasChangedSinceTheScanIsLeftAlone) {
  const Handle lost = file("f");
  erase(inode_key(lost));
  const Finding finding = only(Damage::kDanglingEntry);
  const Handle other = file("g");
  put(key_of(kRootHandle, "f"), EntryRecord{other, FileType::kRegular});
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kGone);
  EXPECT_EQ(handle_at("f"), other);
}

TEST_F(CheckNames, WrongEntryType) {
  const Handle a = make_directory("a");
  put(key_of(kRootHandle, "a"), EntryRecord{a, FileType::kRegular});
  mend(only(Damage::kWrongEntryType));
  EXPECT_EQ(record<EntryRecord>(key_of(kRootHandle, "a"))->type, FileType::kDirectory);
}

TEST_F(CheckNames, AMisfiledEntryIsFoundByItsNameAgain) {
  const Handle f = file("f");
  erase(key_of(kRootHandle, "f"));
  put(entry_key(kRootHandle, 12345, "f"), EntryRecord{f, FileType::kRegular});
  mend(only(Damage::kMisfiledEntry));
  EXPECT_EQ(handle_at("f"), f);
}

TEST_F(CheckNames, AMisfiledEntryWhoseNameIsTakenGetsAnotherOne) {
  const Handle f = file("f");
  erase(key_of(kRootHandle, "f"));
  put(entry_key(kRootHandle, 12345, "f"), EntryRecord{f, FileType::kRegular});
  change_inode(kRootHandle, [](InodeRecord& root) { root.attributes.size = 0; });
  const Handle newer = file("f");
  change_inode(kRootHandle, [](InodeRecord& root) { root.attributes.size = 2; });
  mend(only(Damage::kMisfiledEntry));
  EXPECT_EQ(handle_at("f"), newer);
  EXPECT_EQ(handle_at("#" + std::to_string(f.value)), f);
}

TEST_F(CheckNames, CountsOfAnEmptyDirectory) {
  const Handle a = make_directory("a");
  change_inode(a, [](InodeRecord& inode) { inode.attributes.link_count = 7; });
  mend(only(Damage::kWrongDirectoryCounts));
  EXPECT_EQ(inode(a).attributes.link_count, 2U);
}

TEST_F(CheckNames, CountsOfADirectoryWithEntriesAreFactsForTheCaller) {
  const Handle a = make_directory("a");
  make_directory("a/b");
  for (char c = '0'; c < '8'; ++c) file(std::string("a/") + c);
  change_inode(a, [](InodeRecord& inode) { inode.attributes.size = 3; });
  EXPECT_THAT(check(), testing::IsEmpty());
  std::uint32_t entries = 0;
  std::uint32_t subdirectories = 0;
  for (const auto& fact : scan(ScanKind::kEntries).directories) {
    if (fact.directory != a) continue;
    EXPECT_EQ(fact.size, 3U);
    entries += fact.entries;
    subdirectories += fact.subdirectories;
  }
  EXPECT_EQ(entries, 9U);
  EXPECT_EQ(subdirectories, 1U);
  Finding finding;
  finding.damage = Damage::kWrongDirectoryCounts;
  finding.handle = a;
  EXPECT_EQ(repair(finding, false).outcome, RepairOutcome::kConfirmed);
  EXPECT_EQ(inode(a).attributes.size, 3U);
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kRepaired);
  EXPECT_EQ(inode(a).attributes.size, 9U);
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kGone);
}

TEST_F(CheckNames, ALinkCountIsMendedOnlyIfTheObjectHasNotChangedSince) {
  const Handle f = file("f");
  Finding finding;
  finding.damage = Damage::kWrongLinkCount;
  finding.handle = f;
  finding.actual = 1;
  finding.version = inode(f).attributes.version;
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kGone);
  change_inode(f, [](InodeRecord& inode) { inode.attributes.link_count = 5; });
  finding.version += 1;
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kChanged);
  EXPECT_EQ(inode(f).attributes.link_count, 5U);
  finding.version -= 1;
  EXPECT_EQ(repair(finding, false).outcome, RepairOutcome::kConfirmed);
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kRepaired);
  EXPECT_EQ(inode(f).attributes.link_count, 1U);
}

TEST_F(CheckNames, OrphansGetANameInLostFound) {
  const Handle f = file("f", 100);
  const Handle d = make_directory("d");
  const Handle inside = file("d/g");
  erase(key_of(kRootHandle, "f"));
  erase(key_of(kRootHandle, "d"));
  change_inode(kRootHandle, [](InodeRecord& root) {
    root.attributes.size = 0;
    root.attributes.link_count = 2;
  });
  for (const Handle orphan : {f, d}) {
    Finding finding;
    finding.damage = Damage::kOrphanInode;
    finding.handle = orphan;
    finding.version = inode(orphan).attributes.version;
    EXPECT_EQ(repair(finding, false).outcome, RepairOutcome::kConfirmed);
    const auto reply = repair(finding, true);
    EXPECT_EQ(reply.outcome, RepairOutcome::kRepaired) << reply.note;
    EXPECT_EQ(reply.path, "/lost+found/#" + std::to_string(orphan.value));
    EXPECT_EQ(handle_at(reply.path), orphan);
  }
  EXPECT_EQ(handle_at("lost+found/#" + std::to_string(d.value) + "/g"), inside);
  const InodeRecord place = inode(handle_at("lost+found"));
  EXPECT_EQ(place.attributes.size, 2U);
  EXPECT_EQ(place.attributes.link_count, 3U);
  EXPECT_EQ(place.attributes.mode, 0700U);
  EXPECT_THAT(check(), testing::IsEmpty());
}

TEST_F(CheckNames, AFileNamedLostFoundPreventsTheRepair) {
  const Handle f = file("f");
  file("lost+found");
  erase(key_of(kRootHandle, "f"));
  Finding finding;
  finding.damage = Damage::kOrphanInode;
  finding.handle = f;
  finding.version = inode(f).attributes.version;
  wire::MetaRepairRequest request;
  request.finding = finding;
  request.apply = true;
  const auto reply = asked<wire::MetaRepairReply>(admin, std::move(request), no_id());
  EXPECT_ERRC(reply, Errc::kNotDirectory);
  EXPECT_NE(reply.error().message().find("another name"), std::string::npos);
}

TEST_F(CheckNames, AnUnfinishedUnlinkIsFinishedUnlessTheFileIsOpen) {
  const Handle f = file("f", 100);
  const auto opened = open_file(admin, "f", wire::kOpenRead);
  ASSERT_OK(unlink(admin, "f"));
  Finding finding;
  finding.damage = Damage::kUnfinishedUnlink;
  finding.handle = f;
  finding.version = inode(f).attributes.version;
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kGone);  // it is correct already
  erase(open_key(f, admin.id, admin.epoch));
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kRepaired);
  wait(std::chrono::seconds(1));
  EXPECT_TRUE(is_removed(io.files[f]));
  EXPECT_THAT(check(), testing::IsEmpty());
}

TEST_F(CheckNames, XattrCountsAndStrayXattrs) {
  const Handle f = file("f");
  wire::SetxattrRequest xattr;
  xattr.where = at("f");
  xattr.name = "user.a";
  xattr.value = Bytes(10);
  ASSERT_OK(asked<wire::SetxattrReply>(admin, xattr));
  const std::uint32_t bytes = inode(f).xattr_bytes;
  change_inode(f, [](InodeRecord& inode) { inode.xattr_bytes = 0; });
  mend(only(Damage::kWrongXattrCounts));
  EXPECT_EQ(inode(f).xattr_bytes, bytes);
  change_inode(f, [](InodeRecord& inode) { inode.xattr_count = inode.xattr_bytes = 0; });
  mend(only(Damage::kWrongXattrCounts));
  EXPECT_EQ(inode(f).xattr_count, 1U);
  put_raw(xattr_key(kNowhere, "user.b"), "\1x");
  mend(only(Damage::kStrayXattr));
  EXPECT_EQ(records(KeyKind::kXattr), 1U);
}

TEST_F(CheckNames, UnreadableRecordsAreReportedAndLeftAlone) {
  const Handle f = file("f", 100);
  put_raw(inode_key(f), "\1nonsense");
  auto findings = check();
  ASSERT_EQ(findings.size(), 1U);  // and no dangling entry: the inode exists
  EXPECT_EQ(findings[0].damage, Damage::kUnreadableRecord);
  EXPECT_EQ(findings[0].handle, f);
  const auto reply = repair(findings[0], true);
  EXPECT_EQ(reply.outcome, RepairOutcome::kLeft);
  EXPECT_NE(reply.note.find("inode"), std::string::npos);
  put_raw(inode_key(f), "\77from the future");
  EXPECT_NE(repair(findings[0], true).note.find("newer"), std::string::npos);
  put_raw(key_of(kRootHandle, "f"), "");
  findings = check();
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[1].damage, Damage::kUnreadableRecord);
}

TEST_F(CheckNames, UnissuedHandlesAndUnknownTargetsAreFound) {
  const Handle f = file("f", 10);
  const Handle future{1ULL << 40U};
  InodeRecord copy = inode(f);
  copy.attributes.handle = future;
  copy.layout->slots[1].targets[0] = TargetId(60000);
  put(inode_key(future), copy);
  const auto findings = check();
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].damage, Damage::kHandleNotGiven);
  EXPECT_EQ(findings[1].damage, Damage::kUnknownTarget);
  for (const Finding& finding : findings) {
    EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kLeft);
    EXPECT_EQ(repair(finding, false).outcome, RepairOutcome::kLeft);
  }
}

TEST_F(CheckNames, AFileWhoseParentHasNoNameOfIt) {
  const Handle a = make_directory("a");
  const Handle b = make_directory("b");
  const Handle f = file("a/f");
  change_inode(f, [&](InodeRecord& inode) { inode.parent = b; });
  const Finding finding = only(Damage::kWrongParent);
  EXPECT_EQ(finding.recorded, b.value);
  EXPECT_EQ(repair(finding, false).path, "/a/f");
  mend(finding);
  EXPECT_EQ(inode(f).parent, a);
  EXPECT_EQ(handle_at("a/f"), f);  // the name stays
}

TEST_F(CheckNames, AFileWithSeveralNamesMayHaveAnyOfTheirDirectoriesAsParent) {
  const Handle a = make_directory("a");
  const Handle b = make_directory("b");
  const Handle f = file("a/f");
  wire::LinkRequest link;
  link.existing = at("a/f");
  link.where = at("b/f");
  ASSERT_OK(asked<wire::LinkReply>(admin, link));
  EXPECT_THAT(check(), testing::IsEmpty());
  EXPECT_EQ(inode(f).second_parent, b);
  change_inode(f, [&](InodeRecord& inode) { std::swap(inode.parent, inode.second_parent); });
  EXPECT_THAT(check(), testing::IsEmpty());
  change_inode(f, [&](InodeRecord& inode) { inode.parent = kRootHandle; });
  const auto findings = check();
  ASSERT_EQ(findings.size(), 2U);  // one for each of its names
  EXPECT_EQ(repair(findings[0], true).outcome, RepairOutcome::kRepaired);
  EXPECT_EQ(repair(findings[1], true).outcome, RepairOutcome::kGone);
  EXPECT_THAT(std::vector({a, b}), testing::Contains(inode(f).parent));
  EXPECT_THAT(check(), testing::IsEmpty());
}

TEST_F(CheckNames, AFileWhoseSecondParentHasNoNameOfIt) {
  const Handle a = make_directory("a");
  const Handle f = file("a/f");
  change_inode(f, [&](InodeRecord& inode) { inode.second_parent = a; });  // there is only one name
  mend(only(Damage::kWrongParent));
  EXPECT_EQ(inode(f).parent, a);
  EXPECT_EQ(inode(f).second_parent, Handle());
  change_inode(f, [&](InodeRecord& inode) { inode.second_parent = kRootHandle; });
  mend(only(Damage::kWrongParent));
  EXPECT_EQ(inode(f).second_parent, Handle());
}

TEST_F(CheckNames, AFileWithoutANameHasNoParent) {
  const auto open = create(admin, "f", wire::kOpenWrite);
  ASSERT_OK(open);
  const Handle f = handle_at("f");
  wire::UnlinkRequest unlink;
  unlink.where = at("f");
  ASSERT_OK(asked<wire::UnlinkReply>(admin, unlink));
  change_inode(f, [](InodeRecord& inode) { inode.parent = kRootHandle; });
  mend(only(Damage::kWrongParent));
  EXPECT_EQ(inode(f).parent, Handle());
}

TEST_F(CheckNames, AnUnknownParentIsNoDamageAndIsFilled) {
  const Handle a = make_directory("a");
  const Handle f = file("a/f");
  const Handle g = file("g");
  for (const Handle handle : {f, g}) change_inode(handle, [](InodeRecord& inode) { inode.parent = Handle(); });
  const Attributes before = inode(f).attributes;
  EXPECT_THAT(check(), testing::IsEmpty());
  const auto unknown = scan(ScanKind::kParents).findings;
  ASSERT_EQ(unknown.size(), 2U);
  for (const Finding& finding : unknown) {
    EXPECT_EQ(wire::damage_name(finding.damage), "unknown-parent");
    EXPECT_EQ(repair(finding, false).outcome, RepairOutcome::kConfirmed);
    EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kRepaired);
    EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kGone);
  }
  EXPECT_EQ(inode(f).parent, a);
  EXPECT_EQ(inode(g).parent, kRootHandle);
  EXPECT_EQ(inode(f).attributes, before);  // nothing that a client sees has changed
  EXPECT_THAT(scan(ScanKind::kParents).findings, testing::IsEmpty());
}

TEST_F(CheckNames, AParentIsFilledOnlyFromANameThatIsThere) {
  const Handle a = make_directory("a");
  const Handle f = file("f");
  change_inode(f, [](InodeRecord& inode) { inode.parent = Handle(); });
  Finding finding;
  finding.damage = Damage::kUnknownParent;
  finding.handle = f;
  finding.directory = a;
  finding.name = "f";
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kGone);
  EXPECT_EQ(inode(f).parent, Handle());
}

}  // namespace
}  // namespace spate::meta
