// SPDX-License-Identifier: Apache-2.0
#include "model/data_group.h"

#include "base/expect.h"

namespace spate {
namespace {

constexpr TargetId kFirst = target_id(ServerId(1), 0);
constexpr TargetId kSecond = target_id(ServerId(2), 0);
constexpr TargetId kThird = target_id(ServerId(3), 1);
constexpr auto kServing = MemberState::kServing;
constexpr auto kJoining = MemberState::kJoining;
constexpr auto kAbsent = MemberState::kAbsent;

DataGroup group_of(MemberState second, MemberState third) {
  DataGroup group;
  group.id = TargetId(kFirstGroup.value + 7);
  group.epoch = 4;
  group.primary = kFirst;
  group.members = {{kFirst, kServing}, {kSecond, second}, {kThird, third}};
  return group;
}

DataGroup next(DataGroup group) {
  ++group.epoch;
  return group;
}

/// The same members in other states, one epoch later.
DataGroup next(DataGroup group, MemberState second, MemberState third) {
  group.members[1].state = second;
  group.members[2].state = third;
  return next(std::move(group));
}

Result<DataGroup> decoded(ByteView bytes) {
  Decoder in(bytes);
  DataGroup group = decode_data_group(in);
  SPATE_TRY(std::ignore, in.finish("data group"));
  return group;
}

Bytes encoded(const DataGroup& group) {
  Bytes bytes;
  Encoder out(bytes);
  encode(out, group);
  return bytes;
}

TEST(DataGroup, DecodeUndoesEncode) {
  DataGroup group = group_of(kJoining, kAbsent);
  group.min = 2;
  group.loss = 9;
  const auto again = decoded(encoded(group));
  ASSERT_OK(again);
  EXPECT_EQ(*again, group);
}

TEST(DataGroup, TruncationsAndNonsenseAreRefused) {
  const Bytes bytes = encoded(group_of(kServing, kServing));
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_ERRC(decoded(ByteView(bytes).first(n)), Errc::kCorrupt) << n;
  const auto refused = [](auto damage) {
    DataGroup group = group_of(kServing, kServing);
    damage(group);
    return decoded(encoded(group)).code();
  };
  EXPECT_EQ(refused([](DataGroup& g) { g.id = kFirst; }), Errc::kCorrupt);
  EXPECT_EQ(refused([](DataGroup& g) { g.epoch = 0; }), Errc::kCorrupt);
  EXPECT_EQ(refused([](DataGroup& g) { g.min = 0; }), Errc::kCorrupt);
  EXPECT_EQ(refused([](DataGroup& g) { g.min = 4; }), Errc::kCorrupt);
  EXPECT_EQ(refused([](DataGroup& g) { g.members.resize(1); }), Errc::kCorrupt);
  EXPECT_EQ(refused([](DataGroup& g) { g.members[0].state = kAbsent; }), Errc::kCorrupt);
  EXPECT_EQ(refused([](DataGroup& g) { g.members[1].state = MemberState{4}; }), Errc::kCorrupt);
  EXPECT_EQ(refused([](DataGroup& g) { g.members[1].target = target_id(ServerId(1), 5); }), Errc::kCorrupt);
  EXPECT_EQ(refused([](DataGroup& g) { g.members[1].target = TargetId(kFirstGroup.value + 1); }), Errc::kCorrupt);
  EXPECT_EQ(refused([](DataGroup& g) { g.members.resize(kMaxReplicas + 1, g.members[2]); }), Errc::kCorrupt);
}

TEST(DataGroup, ThePrimaryRemovesMembersAndReadmitsThem) {
  const DataGroup whole = group_of(kServing, kServing);
  const DataGroup alone = next(whole, kAbsent, kAbsent);
  EXPECT_OK(check_change(whole, alone, kFirst));
  const DataGroup joining = next(alone, kJoining, kAbsent);
  EXPECT_OK(check_change(alone, joining, kFirst));
  EXPECT_OK(check_change(joining, next(joining, kServing, kAbsent), kFirst));
  EXPECT_OK(check_change(joining, next(joining, kAbsent, kAbsent), kFirst));
  EXPECT_OK(check_change(whole, next(whole, kJoining, kServing), kFirst));
}

TEST(DataGroup, NobodyServesWithoutHavingJoined) {
  const DataGroup alone = group_of(kAbsent, kAbsent);
  EXPECT_ERRC(check_change(alone, next(alone, kServing, kAbsent), kFirst), Errc::kInvalidArgument);
  const DataGroup joining = group_of(kServing, kJoining);
  EXPECT_ERRC(check_change(joining, next(joining, kServing, kServing), kThird), Errc::kInvalidArgument);
  EXPECT_ERRC(check_change(joining, next(joining, kServing, kServing), kSecond), Errc::kInvalidArgument);
}

TEST(DataGroup, AServingMemberTakesOver) {
  const DataGroup from = group_of(kServing, kJoining);
  DataGroup to = next(from);
  to.primary = kSecond;
  to.members[0].state = kAbsent;
  EXPECT_OK(check_change(from, to, kSecond));
  EXPECT_ERRC(check_change(from, to, kThird), Errc::kInvalidArgument);
  to.members[2].state = kServing;
  EXPECT_ERRC(check_change(from, to, kSecond), Errc::kInvalidArgument);
  DataGroup joiner_leads = next(from);
  joiner_leads.primary = kThird;
  joiner_leads.members[0].state = kAbsent;
  joiner_leads.members[2].state = kServing;
  EXPECT_ERRC(check_change(from, joiner_leads, kThird), Errc::kInvalidArgument);
}

TEST(DataGroup, OnlyTheMemberThatLeadsAfterwardsRaisesTheLoss) {
  const DataGroup from = group_of(kServing, kServing);
  DataGroup stays = next(from);
  ++stays.loss;
  EXPECT_OK(check_change(from, stays, kFirst));
  DataGroup taken = next(from, kServing, kServing);
  taken.primary = kSecond;
  taken.members[0].state = kAbsent;
  ++taken.loss;
  EXPECT_OK(check_change(from, taken, kSecond));
  DataGroup other = next(from, kServing, kAbsent);
  ++other.loss;
  EXPECT_ERRC(check_change(from, other, kThird), Errc::kInvalidArgument);
}

TEST(DataGroup, OthersChangeOnlyThemselves) {
  const DataGroup from = group_of(kServing, kAbsent);
  EXPECT_OK(check_change(from, next(from, kServing, kJoining), kThird));
  EXPECT_OK(check_change(from, next(from, kAbsent, kAbsent), kSecond));
  EXPECT_ERRC(check_change(from, next(from, kAbsent, kAbsent), kThird), Errc::kInvalidArgument);
  EXPECT_ERRC(check_change(from, next(from, kServing, kJoining), kSecond), Errc::kInvalidArgument);
  EXPECT_ERRC(check_change(from, next(from), TargetId(9999)), Errc::kInvalidArgument);
}

TEST(DataGroup, ByAnOperatorsWordAnOlderCopyLeadsInANewHistory) {
  DataGroup from = group_of(kAbsent, kJoining);
  from.loss = 3;
  for (const TargetId leads : {kSecond, kThird}) {
    const DataGroup to = without_serving(from, leads);
    EXPECT_OK(check_change(from, to, TargetId()));
    EXPECT_EQ(to.serving(), 1U);
    EXPECT_TRUE(to.serves(leads)) << "the member leads";
    EXPECT_EQ(to.history(), from.history() + 1);
    EXPECT_GT(without_serving(to, kFirst).loss, to.loss);
    for (const TargetId member : {kFirst, kSecond, kThird})
      EXPECT_ERRC(check_change(from, to, member), Errc::kInvalidArgument) << member.value;
    DataGroup same_history = to;
    same_history.loss = from.loss;
    EXPECT_ERRC(check_change(from, same_history, TargetId()), Errc::kInvalidArgument);
    DataGroup keeps_one = to;
    keeps_one.members[0].state = kJoining;
    EXPECT_ERRC(check_change(from, keeps_one, TargetId()), Errc::kInvalidArgument);
  }
  EXPECT_ERRC(check_change(from, without_serving(from, kFirst), TargetId()), Errc::kInvalidArgument);
}

TEST(DataGroup, ThePrimaryReplacesAnAbsentMember) {
  const DataGroup from = group_of(kServing, kAbsent);
  DataGroup to = next(from);
  const TargetId fourth = target_id(ServerId(4), 0);
  to.members[2].target = fourth;
  EXPECT_OK(check_change(from, to, kFirst));
  EXPECT_ERRC(check_change(from, to, kSecond), Errc::kInvalidArgument);
  EXPECT_ERRC(check_change(from, to, kThird), Errc::kInvalidArgument);
  EXPECT_ERRC(check_change(from, to, fourth), Errc::kInvalidArgument);
  to.members[2].state = kJoining;
  EXPECT_ERRC(check_change(from, to, kFirst), Errc::kInvalidArgument);
  to.members[2] = {target_id(ServerId(2), 3), kAbsent};  // of a server that has a member
  EXPECT_FALSE(check_change(from, to, kFirst)) << "two copies on one server";
  const DataGroup joining = group_of(kServing, kJoining);
  to = next(joining);
  to.members[2] = {fourth, kAbsent};
  EXPECT_ERRC(check_change(joining, to, kFirst), Errc::kInvalidArgument);
}

TEST(DataGroup, ConstantFieldsCannotBeChanged) {
  const DataGroup from = group_of(kServing, kServing);
  const auto refused = [&from](auto change) {
    DataGroup to = next(from);
    change(to);
    return check_change(from, to, kFirst).code();
  };
  EXPECT_EQ(refused([](DataGroup& g) { ++g.epoch; }), Errc::kInvalidArgument);
  EXPECT_EQ(refused([](DataGroup& g) { --g.epoch; }), Errc::kInvalidArgument);
  EXPECT_EQ(refused([](DataGroup& g) { g.id = TargetId(g.id.value + 1); }), Errc::kInvalidArgument);
  EXPECT_EQ(refused([](DataGroup& g) { g.min = 2; }), Errc::kInvalidArgument);
  EXPECT_EQ(refused([](DataGroup& g) { g.members.pop_back(); }), Errc::kInvalidArgument);
  EXPECT_EQ(refused([](DataGroup& g) { std::swap(g.members[1], g.members[2]); }), Errc::kInvalidArgument);
  EXPECT_EQ(refused([](DataGroup& g) { g.members[2].target = target_id(ServerId(4), 0); }), Errc::kInvalidArgument);
  EXPECT_EQ(refused([](DataGroup& g) { g.loss = 1; }), Errc::kOk);
  EXPECT_EQ(refused([](DataGroup&) {}), Errc::kOk);
}

}  // namespace
}  // namespace spate
