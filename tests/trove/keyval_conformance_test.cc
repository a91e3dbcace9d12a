// SPDX-License-Identifier: Apache-2.0
// What trove/keyval.h promises, over every module.
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

TEST_P(KeyvalTest, ManyKeysComeInTheOrderAsked) {
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

TEST_P(KeyvalTest, ReadsSeeTheStoreAsItWasAtBegin) {
  put_now("a", "old");
  put_now("b", "old");
  const auto t = begin();
  const auto reader = begin();
  EXPECT_EQ(get(*reader, "a"), "old");
  put_now("a", "new");
  put_now("aa", "new");
  erase_now("b");
  for (Transaction* each : {t.get(), reader.get()}) {
    EXPECT_EQ(get(*each, "a", ReadMode::kSnapshot), "old");
    EXPECT_EQ(get_many(*each, {"aa", "b"}, ReadMode::kSnapshot), (Entries{{"b", "old"}}));
    EXPECT_EQ(range(*each, "a", "z", 10, ReadMode::kSnapshot), (Entries{{"a", "old"}, {"b", "old"}}));
  }
  const auto later = begin();
  EXPECT_EQ(range(*later, "a", "z"), (Entries{{"a", "new"}, {"aa", "new"}}));
}

TEST_P(KeyvalTest, ChangedKeyConflicts) {
  put_now("k", "0");
  const auto first = begin();
  const auto second = begin();
  EXPECT_EQ(get(*first, "k"), "0");
  EXPECT_EQ(get(*second, "k"), "0");
  put(*first, "k", "1");
  put(*second, "k", "2");
  EXPECT_EQ(commit(*first), Errc::kOk);
  EXPECT_EQ(commit(*second), Errc::kConflict);
  EXPECT_EQ(get_now("k"), "1");
}

TEST_P(KeyvalTest, AbsentKeyThatAppearsConflicts) {
  const auto t = begin();
  EXPECT_EQ(get(*t, "k"), std::nullopt);
  put(*t, "other", "1");
  put_now("k", "1");
  EXPECT_EQ(commit(*t), Errc::kConflict);
  EXPECT_EQ(get_now("other"), std::nullopt);
}

TEST_P(KeyvalTest, KeyOfManyThatChangesConflicts) {
  const auto t = begin();
  EXPECT_EQ(get_many(*t, {"a", "b", "c"}), Entries{});
  put(*t, "other", "1");
  put_now("b", "1");
  EXPECT_EQ(commit(*t), Errc::kConflict);
}

TEST_P(KeyvalTest, EraseConflictsAndReadersThatOnlyReadToo) {
  put_now("k", "0");
  const auto t = begin();
  EXPECT_EQ(get(*t, "k"), "0");
  erase_now("k");
  EXPECT_EQ(commit(*t), Errc::kConflict);
}

TEST_P(KeyvalTest, InsertIntoACheckedRangeConflicts) {
  put_now("a", "0");
  put_now("c", "0");
  const auto t = begin();
  EXPECT_EQ(range(*t, "a", "d").size(), 2U);
  put(*t, "sum", "2");
  put_now("b", "phantom");
  EXPECT_EQ(commit(*t), Errc::kConflict);
}

TEST_P(KeyvalTest, EraseInACheckedRangeConflicts) {
  put_now("a", "0");
  put_now("b", "0");
  const auto t = begin();
  EXPECT_EQ(range(*t, "a", "d").size(), 2U);
  put(*t, "sum", "2");
  erase_now("b");
  EXPECT_EQ(commit(*t), Errc::kConflict);
}

TEST_P(KeyvalTest, EmptyCheckedRangeConflictsWithAnInsert) {
  const auto t = begin();
  EXPECT_EQ(range(*t, "dir/", "dir0", 1), Entries{});  // rmdir: no entry left
  put(*t, "removed", "1");
  put_now("dir/file", "1");
  EXPECT_EQ(commit(*t), Errc::kConflict);
}

TEST_P(KeyvalTest, ChangesOutsideTheRangeDoNotConflict) {
  for (const char* key : {"a", "b", "c", "d"}) put_now(key, "0");
  const auto t = begin();
  EXPECT_EQ(range(*t, "b", "d").size(), 2U);
  put(*t, "sum", "2");
  put_now("a", "1");
  put_now("d", "1");
  EXPECT_EQ(commit(*t), Errc::kOk);
}

TEST_P(KeyvalTest, LimitedRangeIsCheckedUpToItsLastEntry) {
  for (const char* key : {"a", "c", "e"}) put_now(key, "0");
  const auto beyond = begin();
  EXPECT_EQ(range(*beyond, "a", "z", 2), (Entries{{"a", "0"}, {"c", "0"}, {"...", ""}}));
  put(*beyond, "x1", "1");
  const auto inside = begin();
  EXPECT_EQ(range(*inside, "a", "z", 2).size(), 3U);
  put(*inside, "x2", "1");
  const auto last = begin();
  EXPECT_EQ(range(*last, "a", "z", 2).size(), 3U);
  put(*last, "x3", "1");
  put_now("d", "1");
  EXPECT_EQ(commit(*beyond), Errc::kOk);
  put_now("b", "1");
  EXPECT_EQ(commit(*inside), Errc::kConflict);
  put_now("c", "1");
  EXPECT_EQ(commit(*last), Errc::kConflict);
}

TEST_P(KeyvalTest, SnapshotReadsNeverConflict) {
  put_now("k", "0");
  const auto t = begin();
  EXPECT_EQ(get(*t, "k", ReadMode::kSnapshot), "0");
  EXPECT_EQ(get_many(*t, {"k"}, ReadMode::kSnapshot).size(), 1U);
  EXPECT_EQ(range(*t, "a", "z", 10, ReadMode::kSnapshot).size(), 1U);
  put(*t, "k", "2");
  put_now("k", "1");
  put_now("l", "1");
  EXPECT_EQ(commit(*t), Errc::kOk);
  EXPECT_EQ(get_now("k"), "2");
}

TEST_P(KeyvalTest, BlindWritesNeverConflictAndTheLastCommitWins) {
  const auto first = begin();
  const auto second = begin();
  put(*first, "k", "1");
  put(*second, "k", "2");
  EXPECT_EQ(commit(*second), Errc::kOk);
  EXPECT_EQ(commit(*first), Errc::kOk);
  EXPECT_EQ(get_now("k"), "1");
}

TEST_P(KeyvalTest, ReadOfAnOwnWriteIsNotChecked) {
  const auto t = begin();
  put(*t, "k", "mine");
  EXPECT_EQ(get(*t, "k"), "mine");
  put_now("k", "theirs");
  EXPECT_EQ(commit(*t), Errc::kOk);
  EXPECT_EQ(get_now("k"), "mine");
}

TEST_P(KeyvalTest, ConflictNeedsAChangeAfterBegin) {
  put_now("k", "0");
  const auto t = begin();
  EXPECT_EQ(get(*t, "k"), "0");
  put(*t, "l", "1");
  EXPECT_EQ(commit(*t), Errc::kOk);
  const auto again = begin();
  EXPECT_EQ(get(*again, "k"), "0");
  EXPECT_EQ(get(*again, "l"), "1");
  put(*again, "l", "2");
  EXPECT_EQ(commit(*again), Errc::kOk);
}

TEST_P(KeyvalTest, WriteSkewIsPrevented) {
  put_now("a", "on");
  put_now("b", "on");
  const auto first = begin();
  const auto second = begin();
  EXPECT_EQ(range(*first, "a", "c").size(), 2U);
  EXPECT_EQ(range(*second, "a", "c").size(), 2U);
  put(*first, "a", "off");
  put(*second, "b", "off");
  EXPECT_EQ(commit(*first), Errc::kOk);
  EXPECT_EQ(commit(*second), Errc::kConflict);
}

TEST_P(KeyvalTest, CommitsInFlightConflictAlready) {
  put_now("k", "0");
  const auto first = begin();
  const auto second = begin();
  EXPECT_EQ(get(*first, "k"), "0");
  EXPECT_EQ(get(*second, "k"), "0");
  put(*first, "k", "1");
  put(*second, "k", "2");
  const auto one = start_commit(*first);
  const auto third = begin();  // between the decision and the completion
  const auto third_read = start_get(*third, "k");
  const auto two = start_commit(*second);
  EXPECT_EQ(wait(*one).status, Errc::kOk);
  EXPECT_EQ(wait(*two).status, Errc::kConflict);
  const KeyvalCompletion read = wait(*third_read);
  put(*third, "k", "3");
  const bool saw = as_text(*read.value) == "1";
  const Errc outcome = commit(*third);
  EXPECT_TRUE(saw || outcome == Errc::kConflict);
  EXPECT_EQ(get_now("k"), outcome == Errc::kOk ? "3" : "1");
}

TEST_P(KeyvalTest, BeginAfterTheCompletionSeesTheCommit) {
  for (int i = 0; i < 50; ++i) {
    const auto t = begin();
    put(*t, "k", std::to_string(i));
    const Durability durability = i % 5 == 0 ? Durability::kMachine : Durability::kProcess;
    ASSERT_EQ(commit(*t, durability), Errc::kOk);
    ASSERT_EQ(get_now("k"), std::to_string(i));
  }
}

TEST_P(KeyvalTest, ManyCommitsInFlightApplyInOrder) {
  std::vector<std::unique_ptr<Transaction>> transactions;
  std::vector<std::unique_ptr<Pending>> commits;
  for (int i = 0; i < 100; ++i) {
    transactions.push_back(begin());
    put(*transactions.back(), "last", std::to_string(i));
    put(*transactions.back(), "k" + std::to_string(i), "v");
    commits.push_back(start_commit(*transactions.back(), i % 3 == 0 ? Durability::kMachine : Durability::kProcess));
  }
  for (const auto& pending : commits) EXPECT_EQ(wait(*pending).status, Errc::kOk);
  EXPECT_EQ(get_now("last"), "99");
  const auto t = begin();
  EXPECT_EQ(range(*t, "k", "l").size(), 100U);
}

TEST_P(KeyvalTest, SyncCompletesWithAndWithoutCommits) {
  EXPECT_EQ(sync(), Errc::kOk);
  put_now("k", "v");
  EXPECT_EQ(sync(), Errc::kOk);
  EXPECT_EQ(sync(), Errc::kOk);
}

TEST_P(KeyvalTest, OverflownConflictWindowConflicts) {
  backend_ = make_keyval_backend(GetParam(), 16 << 10);
  put_now("read", "0");
  const auto old = begin();
  EXPECT_EQ(get(*old, "read"), "0");
  const auto blind = begin();
  const auto snapshot = begin();
  EXPECT_EQ(get(*snapshot, "read", ReadMode::kSnapshot), "0");
  for (int i = 0; i < 1000; ++i) put_now("other" + std::to_string(i), "v");
  put(*old, "x", "1");
  put(*blind, "y", "1");
  put(*snapshot, "z", "1");
  EXPECT_EQ(commit(*old), Errc::kConflict);  // nothing it read has changed, but that can no longer be told
  EXPECT_EQ(commit(*blind), Errc::kOk);
  EXPECT_EQ(commit(*snapshot), Errc::kOk);
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
  const std::string big(std::size_t{1} << 20, 'b');
  for (int i = 0; i < 20; ++i) put_now("big" + std::to_string(i), big + std::to_string(i));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(get_now("big" + std::to_string(i)), big + std::to_string(i));
  const auto t = begin();
  EXPECT_EQ(range(*t, "big", "bih").size(), 20U);
}

TEST_P(KeyvalTest, RestartKeepsWhatWasCommitted) {
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
