// SPDX-License-Identifier: Apache-2.0
// Damage of opens, intents and sizes: a scan finds it, a look confirms it, one repair mends it. Also the name space's
// verdict on datafiles.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/check/check_test.h"
#include "wire/cluster_messages.h"

namespace spate::meta {
namespace {

using wire::Verdict;

class CheckFiles : public CheckTest {
 public:
  WallTime long_ago() { return WallTime{clock.wall().ns - 2 * grace.count()}; }
  std::vector<Verdict> cross_check(std::vector<wire::DatafileFact> datafiles) {
    wire::MetaJudgeRequest request;
    request.datafiles = std::move(datafiles);
    const auto reply = asked<wire::MetaJudgeReply>(admin, std::move(request), no_id());
    EXPECT_OK(reply);
    std::vector<Verdict> verdicts;
    if (!reply) return verdicts;
    for (const auto& judgement : reply->judgements) verdicts.push_back(judgement.verdict);
    return verdicts;
  }
};

TEST_F(CheckFiles, ACountOfWritersWithoutOpensIsCorrected) {
  const Handle f = file("f", 700);
  change_inode(f, [](InodeRecord& inode) {
    inode.write_opens = 2;
    inode.attributes.size_known = false;
  });
  mend(only(Damage::kWrongOpenCount));
  EXPECT_EQ(inode(f).write_opens, 0U);
  EXPECT_TRUE(knows_size(inode(f).attributes));
  EXPECT_EQ(inode(f).attributes.size, 700U);
}

TEST_F(CheckFiles, AnOpenForWritingThatIsNotCounted) {
  const Handle f = create(admin, "f", wire::kOpenWrite)->object.attributes.handle;
  change_inode(f, [](InodeRecord& inode) { inode.write_opens = 0; });
  mend(only(Damage::kWrongOpenCount));
  EXPECT_EQ(inode(f).write_opens, 1U);
  ASSERT_TRUE(write(admin, f, 90));
  ASSERT_OK(close_file(admin, f, Rights::kWrite, data_of(f)));
  wait(std::chrono::seconds(1));
  EXPECT_EQ(inode(f).attributes.size, 90U);
  EXPECT_THAT(check(), testing::IsEmpty());
}

TEST_F(CheckFiles, AnUnknownSizeThatNoRecordAsksFor) {
  const Handle f = file("f", 700);
  change_inode(f, [](InodeRecord& inode) { inode.attributes.size_known = false; });
  mend(only(Damage::kSizeNotAsked));
  EXPECT_TRUE(knows_size(inode(f).attributes));
  EXPECT_EQ(inode(f).attributes.size, 700U);
}

TEST_F(CheckFiles, ASizeThatIsTrustedWhileSomebodyWrites) {
  const Handle f = create(admin, "f", wire::kOpenWrite)->object.attributes.handle;
  change_inode(f, [](InodeRecord& inode) { inode.attributes.size_known = true; });
  mend(only(Damage::kSizeNotAsked));
  EXPECT_FALSE(knows_size(inode(f).attributes));
}

TEST_F(CheckFiles, ATruncationWithoutIntentLeavesTheFileUsable) {
  const Handle f = file("f", 700);
  change_inode(f, [](InodeRecord& inode) { inode.truncating = true; });
  mend(only(Damage::kTruncateWithoutIntent));
  EXPECT_OK(open_file(admin, "f", wire::kOpenRead));
  EXPECT_EQ(inode(f).attributes.size, 700U);
}

TEST_F(CheckFiles, AnIntentWithoutAFlagInItsInodeIsCarriedOut) {
  const Handle f = file("f", 700);
  change_inode(f, [](InodeRecord& inode) { inode.truncate_generation = 1; });
  TruncateIntent intent{300, 1, long_ago(), *inode(f).layout};
  put(truncate_key(f), intent);
  mend(only(Damage::kStrayIntent));
  EXPECT_EQ(data_of(f).size, 300U);
  EXPECT_EQ(records(KeyKind::kTruncate), 0U);
}

TEST_F(CheckFiles, AnOutdatedIntentIsDropped) {
  const Handle f = file("f", 700);
  change_inode(f, [](InodeRecord& inode) { inode.truncate_generation = 5; });
  TruncateIntent intent{300, 1, long_ago(), *inode(f).layout};
  put(truncate_key(f), intent);
  mend(only(Damage::kStrayIntent));
  EXPECT_EQ(data_of(f).size, 700U);
  intent.generation = 9;
  put(truncate_key(kNowhere), intent);
  mend(only(Damage::kStrayIntent));
  EXPECT_EQ(records(KeyKind::kTruncate), 0U);
}

TEST_F(CheckFiles, WorkThatIsUnderWayIsNoDamage) {
  const Handle f = file("f", 700);
  put(unsettled_key(kNowhere), UnsettledRecord{clock.wall()});
  put(removal_key(kNowhere), RemovalRecord{*inode(f).layout, clock.wall()});
  EXPECT_THAT(check(), testing::IsEmpty());
  EXPECT_EQ(scan(ScanKind::kUnsettled).unfinished, 1U);
  EXPECT_EQ(scan(ScanKind::kRemovals).unfinished, 1U);
  erase(removal_key(kNowhere));
  wait_alive(admin, 2 * grace);
  mend(only(Damage::kStrayUnsettled));
}

TEST_F(CheckFiles, AStuckSizeIsRequestedOrTheObstacleIsNamed) {
  const Handle f = file("f", 700);
  change_inode(f, [](InodeRecord& inode) { inode.attributes.size_known = false; });
  put(unsettled_key(f), UnsettledRecord{long_ago()});
  const Finding finding = only(Damage::kStuckSize);
  io.fail = [](std::string_view call) { return call.starts_with("stat") ? Errc::kUnreachable : Errc::kOk; };
  const auto reply = repair(finding, true);
  EXPECT_EQ(reply.outcome, RepairOutcome::kLeft);
  EXPECT_NE(reply.note.find("reached"), std::string::npos) << reply.note;
  io.fail = {};
  wait(std::chrono::seconds(10));
  put(unsettled_key(f), UnsettledRecord{long_ago()});
  change_inode(f, [](InodeRecord& inode) { inode.attributes.size_known = false; });
  mend(only(Damage::kStuckSize));
  EXPECT_EQ(inode(f).attributes.size, 700U);
}

TEST_F(CheckFiles, AStuckRemovalIsFinished) {
  const Handle f = file("f", 700);
  const Layout layout = *inode(f).layout;
  put(removal_key(kNowhere), RemovalRecord{layout, long_ago()});
  mend(only(Damage::kStuckRemoval));
  EXPECT_TRUE(is_removed(io.files[kNowhere]));
}

TEST_F(CheckFiles, ALiveFileIsNeverRemovedAndItsRemovalIsDropped) {
  const Handle f = file("f", 700);
  put(removal_key(f), RemovalRecord{*inode(f).layout, long_ago()});
  restart();  // the new process goes on with all removals that it finds
  admin = connect(root_user());
  wait_alive(admin, std::chrono::minutes(1));
  EXPECT_FALSE(is_removed(io.files[f]));
  mend(only(Damage::kRemovalOfLiveFile));
  EXPECT_FALSE(is_removed(io.files[f]));
  EXPECT_EQ(asked<wire::MetaStatfsReply>(admin, wire::MetaStatfsRequest(), no_id())->removals, 0U);
}

TEST_F(CheckFiles, OpensWithoutAFileAndAnswersWithoutASession) {
  put(open_key(kNowhere, admin.id, admin.epoch), OpenRecord{1, 0});
  mend(only(Damage::kStrayOpen));
  put(answer_key(ClientId(777), 0), AnswerRecord());
  put(answer_key(ClientId(777), 9), AnswerRecord());
  page_size = 1;
  mend(only(Damage::kStrayAnswer));
  EXPECT_FALSE(has(answer_key(ClientId(777), 9)));
}

TEST_F(CheckFiles, AWrongSizeIsReadFromTheDatafiles) {
  const Handle f = file("f", 700);
  change_inode(f, [](InodeRecord& inode) { inode.attributes.size = 123456; });
  Finding finding;
  finding.damage = Damage::kWrongSize;
  finding.handle = f;
  finding.version = inode(f).attributes.version + 1;
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kChanged);
  finding.version -= 1;
  EXPECT_EQ(repair(finding, false).outcome, RepairOutcome::kConfirmed);
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kRepaired);
  EXPECT_EQ(inode(f).attributes.size, 700U);
  EXPECT_THAT(check(), testing::IsEmpty());
  const auto opened = open_file(admin, "f", wire::kOpenWrite);
  finding.version = inode(f).attributes.version;
  EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kGone);  // its size is unknown now
}

TEST_F(CheckFiles, TheNameSpaceKnowsItsDatafiles) {
  const Handle f = file("f", 5000);
  const Handle gone{kNowhere.value};
  const Handle leaving{kNowhere.value + 1};
  const Layout layout = *inode(f).layout;
  const TargetId first = layout.slots[0].targets[0];
  const TargetId second = layout.slots[1].targets[0];
  put(removal_key(leaving), RemovalRecord{layout, clock.wall()});
  const auto verdicts = cross_check({{f, {0, first}, 5000},
                                     {f, {0, first}, 5001},
                                     {f, {1, second}, 1},
                                     {f, {1, first}, 0},
                                     {f, {9, first}, 0},
                                     {gone, {0, first}, 10},
                                     {leaving, {0, first}, 10},
                                     {Handle(1ULL << 40U), {0, first}, 10},
                                     {Handle(gone.value | 7ULL << 48U), {0, first}, 10},
                                     {kRootHandle, {0, first}, 10}});
  EXPECT_EQ(verdicts, (std::vector<Verdict>{Verdict::kGood, Verdict::kTooLong, Verdict::kTooLong, Verdict::kMisplaced,
                                            Verdict::kMisplaced, Verdict::kOrphan, Verdict::kBeingRemoved,
                                            Verdict::kNotGiven, Verdict::kNotGiven, Verdict::kMisplaced}));
  put_raw(inode_key(f), "\1nonsense");
  EXPECT_EQ(cross_check({{f, {0, first}, 5000}}), (std::vector<Verdict>{Verdict::kUnreadable}));
  wire::MetaJudgeRequest request;
  request.datafiles.resize(wire::kMaxJudged + 1);
  EXPECT_ERRC(asked<wire::MetaJudgeReply>(admin, std::move(request), no_id()), Errc::kInvalidArgument);
}

TEST_F(CheckFiles, MembersOfAGroupHoldItsDatafiles) {
  const Handle f = file("f", 5000);
  const Handle gone{kNowhere.value};
  change_inode(f, [](InodeRecord& record) {
    record.layout->redundancy = Redundancy::kMirror;
    record.layout->slots = {Slot{{kFirstGroup}}};
  });
  const TargetId first = target_id(ServerId(1), 0);
  const TargetId second = target_id(ServerId(2), 0);
  const TargetId third = target_id(ServerId(3), 0);
  EXPECT_THAT(cross_check({{f, {0, first}, 5000}}), testing::ElementsAre(Verdict::kMisplaced));
  ASSERT_OK(run(role->core().data_groups().make({{first, second}}, 1, {})));
  EXPECT_THAT(check(), testing::IsEmpty());
  EXPECT_EQ(cross_check({{f, {0, first}, 5000}, {f, {0, second}, 5001}, {f, {0, third}, 0}, {gone, {0, second}, 10}}),
            (std::vector<Verdict>{Verdict::kGood, Verdict::kTooLong, Verdict::kMisplaced, Verdict::kOrphan}));
  wire::ChangeGroupRequest evict;
  evict.from_epoch = 1;
  evict.by = first;
  evict.next = *role->core().data_groups().find(kFirstGroup);
  evict.next.epoch = 2;
  evict.next.find(second)->state = MemberState::kAbsent;
  ASSERT_OK(run(role->core().data_groups().change(evict)));
  EXPECT_EQ(cross_check({{f, {0, second}, 5001}, {gone, {0, second}, 10}, {gone, {0, first}, 10}}),
            (std::vector<Verdict>{Verdict::kGood, Verdict::kGood, Verdict::kOrphan}));
}

TEST_F(CheckFiles, UnknownKindsOfDamageAreRefused) {
  wire::MetaRepairRequest request;
  request.finding.damage = static_cast<Damage>(9999);
  EXPECT_ERRC(asked<wire::MetaRepairReply>(admin, request, no_id()), Errc::kNotSupported);
}

}  // namespace
}  // namespace spate::meta
