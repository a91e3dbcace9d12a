// SPDX-License-Identifier: Apache-2.0
#include "client/session/groups.h"

#include "base/expect.h"

namespace spate::client {
namespace {

constexpr TargetId kGroup = kFirstGroup;

DataGroup record(std::uint64_t epoch, std::uint64_t loss = 0) {
  DataGroup group;
  group.id = kGroup;
  group.epoch = epoch;
  group.primary = target_id(ServerId(1), 0);
  group.members = {{target_id(ServerId(1), 0), MemberState::kServing},
                   {target_id(ServerId(2), 0), MemberState::kServing}};
  group.loss = loss;
  return group;
}

TEST(ClientGroups, AnOlderRecordReplacesNone) {
  Groups groups;
  EXPECT_EQ(groups.find(kGroup), nullptr);
  groups.learn({record(3)});
  groups.learn({record(2)});
  ASSERT_NE(groups.find(kGroup), nullptr);
  EXPECT_EQ(groups.find(kGroup)->epoch, 3U);
  groups.learn({record(4)});
  EXPECT_EQ(groups.find(kGroup)->epoch, 4U);
}

TEST(ClientGroups, AnotherRunOrServerCausesDoubtUntilTheRecordIsRead) {
  Groups groups;
  groups.learn({record(1)});
  groups.note_answer(kGroup, ServerId(1), Incarnation(7));
  groups.note_answer(kGroup, ServerId(1), Incarnation(7));
  EXPECT_FALSE(groups.in_doubt(kGroup));
  groups.note_answer(kGroup, ServerId(1), Incarnation(8));
  EXPECT_TRUE(groups.in_doubt(kGroup)) << "what is known of the group still counts";
  groups.learn({record(1)});
  EXPECT_FALSE(groups.in_doubt(kGroup));
  groups.note_answer(kGroup, ServerId(2), Incarnation(8));
  EXPECT_TRUE(groups.in_doubt(kGroup)) << "what is known of the group still counts";
}

TEST(ClientGroups, OnlyALossOfTheGroupChangesTheNumberThatDetectsLostWrites) {
  Groups groups;
  EXPECT_EQ(groups.loss(kGroup), Incarnation());
  groups.learn({record(1)});
  const Incarnation before = groups.loss(kGroup);
  groups.learn({record(2)});
  EXPECT_EQ(groups.loss(kGroup), before);
  groups.learn({record(3, 1)});
  EXPECT_NE(groups.loss(kGroup), before);
}

}  // namespace
}  // namespace spate::client
