// SPDX-License-Identifier: Apache-2.0
#include "trove/resolver.h"

#include <string>

#include "base/expect.h"
#include "trove/transaction_state.h"
#include "trove/versioned_map.h"

namespace spate::trove {
namespace {

constexpr std::size_t kWindow = 1 << 20;

void write(Resolver& resolver, std::string_view key) {
  OwnedWrites own;
  own.writes.put(as_bytes(key), as_bytes("v"));
  resolver.applied_now(resolver.decide(), own.writes);
}

TEST(ResolverTest, RemembersNothingWithoutLiveTransactions) {
  Resolver resolver(kWindow);
  for (int i = 0; i < 100; ++i) write(resolver, "k" + std::to_string(i));
  EXPECT_EQ(resolver.window().keys(), 0U);
  TransactionState state(resolver);
  state.reads.add_key(as_bytes("k5"));
  EXPECT_TRUE(state.finish());
}

TEST(ResolverTest, RemembersOnlyCommitsAfterTheOldestLiveTransaction) {
  Resolver resolver(kWindow);
  auto oldest = std::make_unique<TransactionState>(resolver);
  write(resolver, "a");
  const TransactionState younger(resolver);
  write(resolver, "b");
  EXPECT_EQ(resolver.window().keys(), 2U);
  oldest.reset();
  write(resolver, "c");
  EXPECT_EQ(resolver.window().keys(), 2U);  // b and c
  EXPECT_EQ(resolver.oldest(), 1U);
}

TEST(ResolverTest, ADecidedCommitConflictsBeforeItIsApplied) {
  Resolver resolver(kWindow);
  OwnedWrites own;
  own.writes.put(as_bytes("k"), as_bytes("v"));
  const Version version = resolver.decide();
  resolver.applied_later(version, own.writes);
  EXPECT_FALSE(resolver.settled());
  TransactionState between(resolver);
  between.reads.add_key(as_bytes("k"));
  TransactionState other(resolver);
  other.reads.add_range_to(as_bytes("a"), as_bytes("j"));
  resolver.settle(version);
  EXPECT_TRUE(resolver.settled());
  EXPECT_FALSE(between.finish());
  EXPECT_TRUE(other.finish());
}

TEST(ResolverTest, RefreshMovesToTheAppliedVersion) {
  Resolver resolver(kWindow);
  TransactionState first(resolver);
  TransactionState second(resolver);
  write(resolver, "k");
  resolver.refresh(first.point);
  EXPECT_EQ(first.point.version(), 1U);
  EXPECT_EQ(resolver.oldest(), 0U);
  first.reads.add_key(as_bytes("k"));
  second.reads.add_key(as_bytes("k"));
  EXPECT_TRUE(first.finish());
  EXPECT_FALSE(second.finish());
}

TEST(ResolverTest, FailedCommitLeavesNoTrace) {
  Resolver resolver(kWindow);
  TransactionState reader(resolver);
  reader.reads.add_key(as_bytes("k"));
  resolver.failed_now(resolver.decide());
  EXPECT_TRUE(resolver.settled());
  EXPECT_TRUE(reader.finish());
}

Batch batch(std::string_view key, const char* value) {
  Batch result;
  result.push_back({to_bytes(as_bytes(key)), std::nullopt});
  if (value != nullptr) result.back().value = to_bytes(as_bytes(value));
  return result;
}

TEST(VersionedMapTest, OldVersionsStayWhileAReaderMayNeedThem) {
  VersionedMap map;
  map.apply(1, batch("k", "one"), 0);
  map.apply(2, batch("k", "two"), 0);
  map.apply(3, batch("k", nullptr), 0);
  map.apply(4, batch("k", "four"), 0);
  EXPECT_EQ(map.get(as_bytes("k"), 0), nullptr);
  EXPECT_EQ(as_text(*map.get(as_bytes("k"), 1)), "one");
  EXPECT_EQ(as_text(*map.get(as_bytes("k"), 2)), "two");
  EXPECT_EQ(map.get(as_bytes("k"), 3), nullptr);
  EXPECT_EQ(as_text(*map.get(as_bytes("k"), 9)), "four");
  map.apply(5, batch("other", "x"), 2);
  EXPECT_EQ(as_text(*map.get(as_bytes("k"), 2)), "two");
  map.apply(6, batch("other", "y"), 6);
  EXPECT_EQ(as_text(*map.get(as_bytes("k"), 6)), "four");
}

TEST(VersionedMapTest, ErasedKeysGoAway) {
  VersionedMap map;
  for (Version version = 1; version < 1000; version += 2) {
    map.apply(version, batch("k" + std::to_string(version), "v"), version);
    map.apply(version + 1, batch("k" + std::to_string(version), nullptr), version + 1);
  }
  EXPECT_EQ(map.size(), 0U);
  map.apply(1001, batch("never was", nullptr), 0);
  EXPECT_EQ(map.size(), 0U);
}

TEST(VersionedMapTest, EraseAndPutAgainBeforeCleaning) {
  VersionedMap map;
  map.apply(1, batch("k", "one"), 0);
  map.apply(2, batch("k", nullptr), 0);
  map.apply(3, batch("k", "three"), 0);
  map.apply(4, batch("k", nullptr), 0);
  map.apply(5, batch("k", nullptr), 3);
  EXPECT_EQ(as_text(*map.get(as_bytes("k"), 3)), "three");
  map.apply(6, batch("l", "x"), 6);
  EXPECT_EQ(map.size(), 1U);
}

}  // namespace
}  // namespace spate::trove
