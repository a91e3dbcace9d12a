// SPDX-License-Identifier: Apache-2.0
// The list of revoked keys: it survives a restart, is bounded, and forgets a key after the key's own end.
#include "server/meta/core/revoked_keys.h"

#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/testing/user_keys_test.h"

namespace spate::meta {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(MetaUserKeys, RevokedKeysStayRevokedAfterACrashOfTheMachine) {
  ASSERT_OK(revoke({key_of(9).id, key_of(4).id}));
  const auto again = revoke({key_of(4).id});
  ASSERT_OK(again);
  EXPECT_EQ(again->revoked.size(), 2U);
  restart();
  std::set<KeyId> told;
  role->core().revoked_keys().on_change([&told](std::set<KeyId> keys) { told = std::move(keys); });
  ASSERT_OK(run(role->core().revoked_keys().start()));
  EXPECT_THAT(told, ElementsAre(key_of(4).id, key_of(9).id));
  ASSERT_OK(join(operators));
  const auto listed = revoke({});
  ASSERT_OK(listed);
  ASSERT_EQ(listed->revoked.size(), 2U);
  EXPECT_EQ(listed->revoked[0].id, key_of(4).id);
  EXPECT_EQ(listed->revoked[0].since, again->revoked[0].since);
}

TEST_F(MetaUserKeys, TheListOfRevokedKeysIsBounded) {
  EXPECT_ERRC(revoke({KeyId{}}), Errc::kInvalidArgument);
  std::vector<KeyId> many(wire::kMaxRevoked);
  for (std::size_t i = 0; i < many.size(); ++i)
    many[i] = {std::byte{1}, static_cast<std::byte>(i >> 8U), static_cast<std::byte>(i)};
  ASSERT_OK(revoke(many));
  EXPECT_ERRC(revoke({key_of(2).id}), Errc::kOutOfRange);
  EXPECT_OK(revoke({many[5]}));
  EXPECT_EQ(revoke({})->revoked.size(), wire::kMaxRevoked);
}

TEST_F(MetaUserKeys, AFullListHasRoomAgainWhenKeysHaveEndedByThemselves) {
  const WallTime end = in_hours(1);
  std::vector<KeyId> many(wire::kMaxRevoked);
  std::vector<WallTime> ends(many.size());
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i] = {std::byte{1}, static_cast<std::byte>(i >> 8U), static_cast<std::byte>(i)};
    if (i % 2 == 0) ends[i] = end;
  }
  ASSERT_OK(revoke(many, ends));
  EXPECT_ERRC(revoke({key_of(2).id}), Errc::kOutOfRange);
  clock.advance(std::chrono::hours(2));
  ASSERT_OK(join(operators));
  EXPECT_ERRC(revoke({key_of(2).id}), Errc::kOutOfRange) << "a meta server with a clock that is behind may take over";
  restart();
  clock.advance(RevokedKeys::kKept);
  ASSERT_OK(join(operators));
  const auto left = revoke({key_of(2).id});
  ASSERT_OK(left);
  EXPECT_EQ(left->revoked.size(), wire::kMaxRevoked / 2 + 1);
  RevokedKeys& list = role->core().revoked_keys();
  EXPECT_FALSE(list.contains(many[0])) << "the list holds a key that has ended by itself";
  EXPECT_TRUE(list.contains(many[1])) << "it has no end of its own";
  EXPECT_TRUE(list.contains(key_of(2).id)) << "the list lacks the new key";
}

TEST_F(MetaUserKeys, OfTwoEndsOfARevokedKeyTheLaterOneCounts) {
  const WallTime early = in_hours(1);
  const WallTime late = in_hours(100);
  ASSERT_OK(revoke({key_of(1).id, key_of(2).id}, {early, WallTime()}));
  ASSERT_OK(revoke({key_of(1).id, key_of(2).id}, {late, early}));
  ASSERT_OK(revoke({key_of(1).id}, {early}));
  ASSERT_OK(revoke({key_of(1).id}));
  clock.advance(std::chrono::hours(50));
  ASSERT_OK(join(operators));
  EXPECT_THAT(ids_of(revoke({key_of(9).id})), ElementsAre(key_of(1).id, key_of(9).id)) << "the end of 2 was told later";
  clock.advance(std::chrono::hours(100));
  ASSERT_OK(join(operators));
  EXPECT_THAT(ids_of(revoke({key_of(8).id})), ElementsAre(key_of(8).id, key_of(9).id));
}

TEST_F(MetaUserKeys, EachRevokedKeyHasOneEnd) {
  const WallTime end = in_hours(1);
  EXPECT_ERRC(revoke({key_of(1).id}, {end, end}), Errc::kInvalidArgument);
  EXPECT_ERRC(revoke({key_of(1).id, key_of(2).id}, {end}), Errc::kInvalidArgument);
  EXPECT_ERRC(revoke({key_of(1).id, KeyId{}}, {end, end}), Errc::kInvalidArgument);
  EXPECT_THAT(ids_of(revoke({})), IsEmpty());
}

}  // namespace
}  // namespace spate::meta
