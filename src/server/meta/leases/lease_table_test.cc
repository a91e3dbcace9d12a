// SPDX-License-Identifier: Apache-2.0
#include "server/meta/leases/lease_table.h"

#include <gmock/gmock.h>

#include "base/expect.h"

namespace spate::meta {
namespace {

constexpr Handle kOneObject{7};
constexpr Handle kOtherObject{8};
constexpr LeaseHolder kFirstHolder{ClientId(1), 1, 1};
constexpr LeaseHolder kSecondHolder{ClientId(2), 1, 1};

::testing::AssertionResult told(bool granted, const std::vector<Handle>& objects, const LeaseHolder& holder) {
  ::testing::AssertionResult result(granted);
  result << "client " << holder.client.value << (granted ? " got a lease on" : " got no lease on");
  for (const Handle object : objects) result << ' ' << object.value;
  return result;
}

::testing::AssertionResult grant(LeaseTable& table, const std::vector<Handle>& objects, const LeaseHolder& holder,
                                 LeaseTable::Stamp stamp) {
  return told(table.grant(objects, holder, stamp), objects, holder);
}

::testing::AssertionResult grant_changed(LeaseTable& table, Handle object, const LeaseHolder& holder) {
  return told(table.grant_changed(object, holder), {object}, holder);
}

/// Grants leases as a look-up does that reads nothing else.
::testing::AssertionResult grant_now(LeaseTable& table, const std::vector<Handle>& objects, const LeaseHolder& holder) {
  const LeaseTable::Stamp stamp = table.begin_read();
  const auto granted = grant(table, objects, holder, stamp);
  table.end_read();
  return granted;
}

std::size_t holders_in(LeaseTable& table, Handle object) {
  const auto* leases = table.of(object);
  return leases == nullptr ? 0 : leases->size();
}

TEST(LeaseTableTest, ManyMayHaveALeaseOnOneObject) {
  LeaseTable table;
  EXPECT_TRUE(grant_now(table, {kOneObject, kOtherObject}, kFirstHolder));
  EXPECT_TRUE(grant_now(table, {kOneObject}, kSecondHolder));
  EXPECT_TRUE(grant_now(table, {kOneObject}, kSecondHolder));  // once more: still one lease
  EXPECT_EQ(holders_in(table, kOneObject), 2U);
  EXPECT_EQ(holders_in(table, kOtherObject), 1U);
  EXPECT_EQ(table.size(), 3U);
  table.drop(kOneObject, kSecondHolder.client);
  EXPECT_EQ(holders_in(table, kOneObject), 1U);
  table.drop_object(kOneObject);
  EXPECT_EQ(holders_in(table, kOneObject), 0U);
  EXPECT_EQ(table.of_session(kFirstHolder.client), 1U);
}

TEST(LeaseTableTest, ASilentHolderKeepsOnlyLeasesUnderWhichItMayGather) {
  LeaseTable table;
  EXPECT_TRUE(grant_now(table, {kOneObject, kOtherObject}, kFirstHolder));
  table.set_gathers(kOneObject, kFirstHolder.client, true);
  table.set_gathers(kOneObject, kSecondHolder.client, true);  // it has no lease
  table.drop_silent(kFirstHolder.client);
  EXPECT_EQ(holders_in(table, kOneObject), 1U);
  EXPECT_EQ(holders_in(table, kOtherObject), 0U);
  table.set_gathers(kOneObject, kFirstHolder.client, false);
  table.drop_silent(kFirstHolder.client);
  EXPECT_EQ(table.size(), 0U);
}

TEST(LeaseTableTest, NoLeaseIsGrantedWhileAnObjectIsBeingChanged) {
  LeaseTable table;
  table.begin_change(kOneObject);
  table.begin_change(kOneObject);
  EXPECT_FALSE(grant_now(table, {kOneObject, kOtherObject}, kFirstHolder));
  EXPECT_EQ(table.size(), 0U);  // the other object gets none either
  table.end_change(kOneObject);
  EXPECT_FALSE(grant_now(table, {kOneObject}, kFirstHolder));
  table.end_change(kOneObject);
  EXPECT_TRUE(grant_now(table, {kOneObject, kOtherObject}, kFirstHolder));
}

TEST(LeaseTableTest, TheClientOfAChangeGetsALeaseUnlessOthersChangedItToo) {
  LeaseTable table;
  EXPECT_FALSE(grant_changed(table, kOneObject, kFirstHolder));  // nobody changes it
  table.begin_change(kOneObject);
  EXPECT_TRUE(grant_changed(table, kOneObject, kFirstHolder));
  table.begin_change(kOneObject);
  EXPECT_FALSE(grant_changed(table, kOneObject, kFirstHolder));
  table.end_change(kOneObject);
  EXPECT_FALSE(grant_changed(table, kOneObject, kFirstHolder));  // the order of the two commits is unknown
  table.end_change(kOneObject);
  table.begin_change(kOneObject);
  EXPECT_TRUE(grant_changed(table, kOneObject, kSecondHolder));
  table.of(kOneObject)->at(kFirstHolder.client).recalled = true;
  EXPECT_FALSE(grant_changed(table, kOneObject, kFirstHolder));
  LeaseHolder older = kSecondHolder;
  table.of(kOneObject)->at(kSecondHolder.client).holder.incarnation = older.incarnation + 1;
  EXPECT_FALSE(grant_changed(table, kOneObject, older));
  table.end_change(kOneObject);
}

TEST(LeaseTableTest, NoLeaseIsGrantedForAReadBeforeTheCommitOfAChange) {
  LeaseTable table;
  const LeaseTable::Stamp before = table.begin_read();
  table.begin_change(kOneObject);
  table.end_change(kOneObject);
  EXPECT_FALSE(grant(table, {kOneObject}, kFirstHolder, before));
  EXPECT_TRUE(grant(table, {kOtherObject}, kFirstHolder, before));
  EXPECT_TRUE(grant_now(table, {kOneObject}, kSecondHolder));  // its read came after the changes
  table.end_read();
}

TEST(LeaseTableTest, ForgottenChangesPreventGrants) {
  LeaseTable table;
  const LeaseTable::Stamp before = table.begin_read();
  for (std::uint64_t i = 0; i < 20000; ++i) {
    table.begin_change(Handle(1000 + i));
    table.end_change(Handle(1000 + i));
  }
  EXPECT_FALSE(grant(table, {Handle(1000)}, kFirstHolder, before));
  EXPECT_FALSE(grant(table, {kOtherObject}, kFirstHolder, before));  // the change may have been forgotten
  EXPECT_TRUE(grant_now(table, {kOtherObject}, kFirstHolder));
  table.end_read();
}

TEST(LeaseTableTest, NoLeaseIsGrantedWhileTheOldOneIsRecalled) {
  LeaseTable table;
  ASSERT_TRUE(grant_now(table, {kOneObject}, kFirstHolder));
  table.of(kOneObject)->at(kFirstHolder.client).recalled = true;
  EXPECT_FALSE(grant_now(table, {kOneObject}, kFirstHolder));
  EXPECT_TRUE(grant_now(table, {kOneObject}, kSecondHolder));
  table.drop(kOneObject, kFirstHolder.client);
  EXPECT_TRUE(grant_now(table, {kOneObject}, kFirstHolder));
}

TEST(LeaseTableTest, ASessionsLeasesEndWithItsEpoch) {
  LeaseTable table;
  ASSERT_TRUE(grant_now(table, {kOneObject}, kFirstHolder));
  ASSERT_TRUE(grant_now(table, {kOtherObject}, LeaseHolder{kFirstHolder.client, 2, 5}));
  table.drop_session(kFirstHolder.client, 2);
  EXPECT_EQ(holders_in(table, kOneObject), 0U);
  EXPECT_EQ(holders_in(table, kOtherObject), 1U);
  table.drop_session(kFirstHolder.client, UINT64_MAX);
  EXPECT_EQ(table.size(), 0U);
}

TEST(LeaseTableTest, AFullSessionsOldestLeasesAreRecalled) {
  LeaseTable table(LeaseLimits{100, 3});
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(grant_now(table, {Handle(10 + i)}, kFirstHolder));
  ASSERT_TRUE(grant_now(table, {Handle(20)}, kSecondHolder));  // a lease of another session
  ASSERT_THAT(table.take_surplus(), testing::IsEmpty());
  EXPECT_FALSE(grant_now(table, {Handle(13)}, kFirstHolder));
  const auto surplus = table.take_surplus();
  ASSERT_THAT(surplus, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(surplus.front(), std::pair(Handle(10), kFirstHolder.client));
  table.drop(surplus.front().first, surplus.front().second);
  EXPECT_TRUE(grant_now(table, {Handle(13)}, kFirstHolder));
}

TEST(LeaseTableTest, IsBounded) {
  LeaseTable table(LeaseLimits{4, 3});
  for (std::uint64_t i = 0; i < 50; ++i)
    std::ignore = grant_now(table, {Handle(10 + i)}, i % 2 == 0 ? kFirstHolder : kSecondHolder);
  EXPECT_EQ(table.size(), 4U);
}

TEST(LeaseTableTest, AFullSessionKeepsTheLeasesThatItHas) {
  LeaseTable table({100, 8});
  const LeaseHolder holder{ClientId(1), 1, 1};
  const auto change = [&](std::uint64_t object) {
    table.begin_change(Handle(object));
    const bool granted = table.grant_changed(Handle(object), holder);
    table.end_change(Handle(object));
    return granted;
  };
  for (std::uint64_t i = 1; i <= 6; ++i) EXPECT_TRUE(change(i));
  table.make_room(ClientId(1));
  EXPECT_THAT(table.take_surplus(), testing::IsEmpty());
  EXPECT_TRUE(change(7));
  table.make_room(ClientId(1));
  EXPECT_EQ(table.take_surplus().size(), 1U);
  EXPECT_TRUE(change(8));
  EXPECT_TRUE(change(1)) << "it needs no room";
  EXPECT_FALSE(change(9));
}

TEST(LeaseTableTest, ADelegationOfADirectoryCoversWhatIsMadeInIt) {
  LeaseTable table;
  const ClientId client(1);
  const LeaseHolder holder{client, 1, 1};
  const Handle directory(10);
  const Handle file(11);
  EXPECT_TRUE(table.grant({directory, file}, holder, table.begin_read()));
  table.end_read();
  table.set_delegated(file, client, directory);
  EXPECT_EQ(table.delegate_of(file), std::nullopt);
  table.set_delegated(directory, client, directory);
  EXPECT_EQ(table.delegate_of(file), client);
  EXPECT_EQ(table.delegate_of(directory), client);
  const LeaseTable::Stamp before = table.ends();
  EXPECT_FALSE(table.undelegated_since(file, before));
  table.drop_silent(client);
  EXPECT_EQ(table.delegated(), 2U) << "a delegation does not end by silence";
  table.drop(directory, client);
  EXPECT_EQ(table.delegate_of(file), std::nullopt);
  EXPECT_TRUE(table.undelegated_since(file, before));
  EXPECT_TRUE(table.undelegated_since(directory, before));
  EXPECT_FALSE(table.undelegated_since(file, table.ends()));
  EXPECT_FALSE(table.undelegated_since(Handle(12), before));
  table.drop(file, client);
  EXPECT_EQ(table.delegated(), 0U);
}

}  // namespace
}  // namespace spate::meta
