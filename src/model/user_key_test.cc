// SPDX-License-Identifier: Apache-2.0
#include "model/user_key.h"

#include "base/expect.h"

namespace spate {
namespace {

UserKey some_key() {
  UserKey key;
  key.id.fill(std::byte{0x3c});
  key.user = {1000, 100, {4, 27, 65536}};
  key.read_only = true;
  key.until = WallTime{1'800'000'000'000'000'000};
  return key;
}

Errc decoded(const Bytes& bytes) { return decode_user_key(bytes).code(); }

TEST(UserKeys, EachKeyHasOneEncoding) {
  const UserKey key = some_key();
  const auto again = decode_user_key(encoded(key));
  ASSERT_OK(again);
  EXPECT_EQ(*again, key);
  EXPECT_LE(encoded(key).size(), kMaxUserKeyBytes);
}

UserKey confined_key() {
  UserKey key = some_key();
  key.directory = Handle(0x0002000000000007);
  return key;
}

TEST(UserKeys, AKeyForOneDirectoryHasAVersionThatOlderServersRefuse) {
  const Bytes whole = encoded(some_key());
  const Bytes confined = encoded(confined_key());
  EXPECT_EQ(whole[0], std::byte{1});
  EXPECT_EQ(confined[0], std::byte{2});
  EXPECT_EQ(confined.size(), whole.size() + 8);
  const auto again = decode_user_key(confined);
  ASSERT_OK(again);
  EXPECT_EQ(*again, confined_key());
  UserKey longest = confined_key();
  longest.user.groups.clear();
  for (std::uint32_t group = 1000; longest.user.groups.size() < kMaxGroups; ++group)
    longest.user.groups.push_back(group);
  EXPECT_EQ(encoded(longest).size(), kMaxUserKeyBytes);
}

TEST(UserKeys, TheDirectoryCannotBeLeftOut) {
  Bytes bytes = encoded(confined_key());
  for (std::size_t i = bytes.size() - 8; i < bytes.size(); ++i) bytes[i] = std::byte{0};
  EXPECT_EQ(decoded(bytes), Errc::kInvalidArgument);
  bytes.resize(bytes.size() - 8);
  EXPECT_EQ(decoded(bytes), Errc::kInvalidArgument);
  Bytes longer = encoded(some_key());
  longer.resize(longer.size() + 8, std::byte{1});
  EXPECT_EQ(decoded(longer), Errc::kInvalidArgument);
}

TEST(UserKeys, EveryTruncationAndEveryByteMoreIsRefused) {
  Bytes bytes = encoded(some_key());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(decode_user_key(ByteView(bytes).first(size)).code(), Errc::kInvalidArgument) << size;
  bytes.push_back(std::byte{0});
  EXPECT_EQ(decoded(bytes), Errc::kInvalidArgument);
}

TEST(UserKeys, AVersionThatIsNotKnownIsRefusedByName) {
  Bytes bytes = encoded(some_key());
  bytes[0] = std::byte{3};
  EXPECT_EQ(decoded(bytes), Errc::kNotSupported);
}

TEST(UserKeys, NoKeyGivesTheRightsOfRoot) {
  const auto refused = [](void (*change)(UserKey&)) {
    UserKey key = some_key();
    change(key);
    EXPECT_NE(fault_of(key), "");
    EXPECT_EQ(decoded(encoded(key)), Errc::kInvalidArgument);
  };
  refused([](UserKey& key) { key.user.uid = 0; });
  refused([](UserKey& key) { key.user.gid = 0; });
  refused([](UserKey& key) { key.user.groups.insert(key.user.groups.begin(), 0); });
}

TEST(UserKeys, FieldsThatNoKeyHasAreRefused) {
  const auto refused = [](void (*change)(UserKey&)) {
    UserKey key = some_key();
    change(key);
    EXPECT_EQ(decoded(encoded(key)), Errc::kInvalidArgument);
  };
  refused([](UserKey& key) { key.id = {}; });
  refused([](UserKey& key) { key.user.groups = {27, 4}; });
  refused([](UserKey& key) { key.user.groups = {4, 4}; });
  refused([](UserKey& key) { key.user.groups = {4, 100}; });
  refused([](UserKey& key) { key.until = WallTime{-1}; });
  refused([](UserKey& key) {
    key.user.groups.clear();
    for (std::uint32_t group = 1000; key.user.groups.size() <= kMaxGroups; ++group) key.user.groups.push_back(group);
  });
  Bytes flags = encoded(some_key());
  flags[flags.size() - 9] = std::byte{3};
  EXPECT_EQ(decoded(flags), Errc::kInvalidArgument);
}

TEST(UserKeys, AKeyCoversItsUserInAnySubsetOfItsGroups) {
  const UserKey key = some_key();
  EXPECT_TRUE(covers(key, key.user));
  EXPECT_TRUE(covers(key, {1000, 27, {}}));
  EXPECT_TRUE(covers(key, {1000, 100, {65536, 100}}));
  EXPECT_FALSE(covers(key, {0, 100, {}}));
  EXPECT_FALSE(covers(key, {1001, 100, {}}));
  EXPECT_FALSE(covers(key, {1000, 5, {}}));
  EXPECT_FALSE(covers(key, {1000, 100, {4, 5}}));
  EXPECT_FALSE(covers(key, {1000, 100, {0}}));
}

TEST(UserKeys, AKeyEndsAtItsTime) {
  UserKey key = some_key();
  EXPECT_FALSE(key.ended(WallTime{key.until.ns - 1}));
  EXPECT_TRUE(key.ended(key.until));
  key.until = {};
  EXPECT_FALSE(key.ended(WallTime{INT64_MAX}));
}

TEST(UserKeys, AnIdIsWrittenInHex) {
  const KeyId id = some_key().id;
  EXPECT_EQ(text_of(id), "3c3c3c3c3c3c3c3c");
  EXPECT_EQ(key_id_from("3c3c3c3c3c3c3c3c"), id);
  EXPECT_EQ(key_id_from("3c3c3c3c3c3c3c3"), std::nullopt);
  EXPECT_EQ(key_id_from("3c3c3c3c3c3c3c3x"), std::nullopt);
  EXPECT_EQ(key_id_from("3c3c3c3c3c3c3c3c3c"), std::nullopt);
}

}  // namespace
}  // namespace spate
