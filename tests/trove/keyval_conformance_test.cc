// SPDX-License-Identifier: Apache-2.0
// The promises of trove/keyval.h, for every module.
#include "trove/keyval_harness.h"

namespace spate::trove {
namespace {

TEST_P(KeyvalTest, GetPutErase) {
  EXPECT_EQ(get_now("a"), std::nullopt);
  put_now("a", "1");
  EXPECT_EQ(get_now("a"), "1");
  put_now("a", "2");
  EXPECT_EQ(get_now("a"), "2");
  put_now("empty", "");
  EXPECT_EQ(get_now("empty"), "");
  erase_now("a");
  EXPECT_EQ(get_now("a"), std::nullopt);
  erase_now("never was");
}

TEST_P(KeyvalTest, KeysAndValuesMayHoldAnyBytes) {
  const std::string key("\0\xff\0k", 4);
  const std::string value("\0\0\xfe", 3);
  put_now(key, value);
  put_now(key + std::string(1, '\0'), "longer");
  EXPECT_EQ(get_now(key), value);
  const auto t = begin();
  EXPECT_EQ(range(*t, key, key + "\x01"), (Entries{{key, value}, {key + std::string(1, '\0'), "longer"}}));
}

TEST_P(KeyvalTest, RangesAreOrderedBoundedAndLimited) {
  for (const char* key : {"d", "b", "a", "c", "e"}) put_now(key, key);
  const auto t = begin();
  EXPECT_EQ(range(*t, "a", "z"), (Entries{{"a", "a"}, {"b", "b"}, {"c", "c"}, {"d", "d"}, {"e", "e"}}));
  EXPECT_EQ(range(*t, "b", "d"), (Entries{{"b", "b"}, {"c", "c"}}));
  EXPECT_EQ(range(*t, "b", "d", 2), (Entries{{"b", "b"}, {"c", "c"}}));
  EXPECT_EQ(range(*t, "b", "e", 2), (Entries{{"b", "b"}, {"c", "c"}, {"...", ""}}));
  EXPECT_EQ(range(*t, "a", "z", 5).size(), 5U);
  EXPECT_EQ(range(*t, "aa", "b"), Entries{});
  EXPECT_EQ(range(*t, "d", "b"), Entries{});
  EXPECT_EQ(range(*t, "", "b"), (Entries{{"a", "a"}}));
}

TEST_P(KeyvalTest, BytesAreOrderedUnsigned) {
  put_now("\x7f", "low");
  put_now("\x80", "high");
  const auto t = begin();
  EXPECT_EQ(range(*t, "\x01", "\xff"), (Entries{{"\x7f", "low"}, {"\x80", "high"}}));
}

TEST_P(KeyvalTest, ManyKeysAreReturnedInTheOrderOfTheRequest) {
  for (const char* key : {"a", "b", "c"}) put_now(key, key);
  const auto t = begin();
  put(*t, "own", "o");
  erase(*t, "b");
  EXPECT_EQ(get_many(*t, {"c", "missing", "own", "b", "a", "a"}),
            (Entries{{"c", "c"}, {"own", "o"}, {"a", "a"}, {"a", "a"}}));
  EXPECT_EQ(get_many(*t, {}), Entries{});
}

TEST_P(KeyvalTest, TransactionReadsItsOwnWrites) {
  for (const char* key : {"b", "d", "f"}) put_now(key, "old");
  const auto t = begin();
  put(*t, "a", "new");
  put(*t, "d", "new");
  erase(*t, "f");
  put(*t, "g", "gone");
  erase(*t, "g");
  EXPECT_EQ(get(*t, "a"), "new");
  EXPECT_EQ(get(*t, "d"), "new");
  EXPECT_EQ(get(*t, "f"), std::nullopt);
  EXPECT_EQ(get(*t, "g"), std::nullopt);
  EXPECT_EQ(range(*t, "a", "z"), (Entries{{"a", "new"}, {"b", "old"}, {"d", "new"}}));
  EXPECT_EQ(range(*t, "a", "z", 2), (Entries{{"a", "new"}, {"b", "old"}, {"...", ""}}));
  erase(*t, "a");
  erase(*t, "b");
  erase(*t, "d");
  EXPECT_EQ(range(*t, "a", "z", 1), Entries{});
  put(*t, "z", "outside");
  put(*t, "y", "in");
  EXPECT_EQ(range(*t, "a", "z", 1), (Entries{{"y", "in"}}));
  EXPECT_EQ(commit(*t), Errc::kOk);
  const auto after = begin();
  EXPECT_EQ(range(*after, "", "~"), (Entries{{"y", "in"}, {"z", "outside"}}));
}

TEST_P(KeyvalTest, LastWriteOfAKeyCounts) {
  const auto t = begin();
  put(*t, "k", "a long first value");
  put(*t, "k", "short");
  put(*t, "k", std::string(5000, 'x'));
  EXPECT_EQ(get(*t, "k"), std::string(5000, 'x'));
  erase(*t, "k");
  put(*t, "k", "last");
  EXPECT_EQ(commit(*t), Errc::kOk);
  EXPECT_EQ(get_now("k"), "last");
}

TEST_P(KeyvalTest, DroppedTransactionLeavesNothing) {
  {
    const auto t = begin();
    put(*t, "k", "v");
  }
  EXPECT_EQ(get_now("k"), std::nullopt);
}

TEST_P(KeyvalTest, SyncCompletesWithAndWithoutCommits) {
  EXPECT_EQ(sync(), Errc::kOk);
  put_now("k", "v");
  EXPECT_EQ(sync(), Errc::kOk);
  EXPECT_EQ(sync(), Errc::kOk);
}

TEST_P(KeyvalTest, ThousandsOfKeysInPages) {
  static constexpr int kKeys = 5000;
  const auto key = [](int i) { return "key" + std::to_string(100000 + i); };
  const auto writer = begin();
  for (int i = 0; i < kKeys; ++i) put(*writer, key((i * 7919) % kKeys), "value" + std::to_string((i * 7919) % kKeys));
  ASSERT_EQ(commit(*writer), Errc::kOk);
  const auto t = begin();
  std::string from = "key";
  int n = 0;
  while (true) {
    Entries page = range(*t, from, "kez", 700);
    const bool more = page.back().first == "...";
    if (more) page.pop_back();
    for (const auto& [found, value] : page) {
      ASSERT_EQ(found, key(n));
      ASSERT_EQ(value, "value" + std::to_string(n));
      ++n;
    }
    if (!more) break;
    from = page.back().first + std::string(1, '\0');
  }
  EXPECT_EQ(n, kKeys);
  std::vector<std::string> all;
  for (int i = 0; i < kKeys; ++i) all.push_back(key(i));
  EXPECT_EQ(get_many(*t, all).size(), static_cast<std::size_t>(kKeys));
  EXPECT_EQ(range(*t, "key", "kez", 10000).size(), static_cast<std::size_t>(kKeys));
}

TEST_P(KeyvalTest, BigValues) {
  static constexpr std::size_t kValues = kThreadSanitizer ? 2 : 20;
  const std::string big(std::size_t{1} << 20, 'b');
  for (std::size_t i = 0; i < kValues; ++i) put_now("big" + std::to_string(i), big + std::to_string(i));
  for (std::size_t i = 0; i < kValues; ++i) EXPECT_EQ(get_now("big" + std::to_string(i)), big + std::to_string(i));
  const auto t = begin();
  EXPECT_EQ(range(*t, "big", "bih").size(), kValues);
}

TEST_P(KeyvalTest, RestartKeepsCommittedTransactions) {
  put_now("kept", "1");
  put_now("erased", "1");
  erase_now("erased");
  {
    const auto synced = begin();
    put(*synced, "synced", "1");
    ASSERT_EQ(commit(*synced, Durability::kMachine), Errc::kOk);
    const auto uncommitted = begin();
    put(*uncommitted, "dropped", "1");
  }
  for (int round = 0; round < 3; ++round) {
    if (!backend_->restart()) GTEST_SKIP() << GetParam() << " keeps nothing";
    const auto t = begin();
    EXPECT_EQ(range(*t, "", "~"), (Entries{{"kept", "1"}, {"synced", "1"}}));
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, KeyvalTest, testing::ValuesIn(keyval_backend_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spate::trove
