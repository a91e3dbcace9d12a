// SPDX-License-Identifier: Apache-2.0
// Isolation: which changes a transaction sees, and which ones make its commit fail (trove/keyval.h), for every module.
#include "trove/keyval_harness.h"

namespace spate::trove {
namespace {

using KeyvalIsolationTest = KeyvalTest;

TEST_P(KeyvalIsolationTest, ReadsSeeTheStoreAsItWasAtBegin) {
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

TEST_P(KeyvalIsolationTest, ChangedKeyConflicts) {
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

TEST_P(KeyvalIsolationTest, AbsentKeyThatAppearsConflicts) {
  const auto t = begin();
  EXPECT_EQ(get(*t, "k"), std::nullopt);
  put(*t, "other", "1");
  put_now("k", "1");
  EXPECT_EQ(commit(*t), Errc::kConflict);
  EXPECT_EQ(get_now("other"), std::nullopt);
}

TEST_P(KeyvalIsolationTest, ANotedKeyConflictsLikeOneThatWasRead) {
  const auto changed = begin();
  const auto unchanged = begin();
  for (Transaction* t : {changed.get(), unchanged.get()}) t->note_read(as_bytes("k"));
  put(*unchanged, "other", "1");
  EXPECT_EQ(commit(*unchanged), Errc::kOk);
  put(*changed, "other", "2");
  put_now("k", "1");
  EXPECT_EQ(commit(*changed), Errc::kConflict);
  EXPECT_EQ(get_now("other"), "1");
}

TEST_P(KeyvalIsolationTest, ANotedRangeConflictsLikeOneThatWasRead) {
  const auto changed = begin();
  const auto unchanged = begin();
  for (Transaction* t : {changed.get(), unchanged.get()}) t->note_range_read(as_bytes("b"), as_bytes("d"));
  put(*unchanged, "other", "1");
  put(*changed, "other", "2");
  for (const char* outside : {"a", "d"}) put_now(outside, "1");
  EXPECT_EQ(commit(*unchanged), Errc::kOk);
  put_now("c", "1");
  EXPECT_EQ(commit(*changed), Errc::kConflict);
  EXPECT_EQ(get_now("other"), "1");
}

TEST_P(KeyvalIsolationTest, KeyOfManyThatChangesConflicts) {
  const auto t = begin();
  EXPECT_EQ(get_many(*t, {"a", "b", "c"}), Entries{});
  put(*t, "other", "1");
  put_now("b", "1");
  EXPECT_EQ(commit(*t), Errc::kConflict);
}

TEST_P(KeyvalIsolationTest, EraseConflictsAlsoWithTransactionsThatOnlyRead) {
  put_now("k", "0");
  const auto t = begin();
  EXPECT_EQ(get(*t, "k"), "0");
  erase_now("k");
  EXPECT_EQ(commit(*t), Errc::kConflict);
}

TEST_P(KeyvalIsolationTest, InsertIntoACheckedRangeConflicts) {
  put_now("a", "0");
  put_now("c", "0");
  const auto t = begin();
  EXPECT_EQ(range(*t, "a", "d").size(), 2U);
  put(*t, "sum", "2");
  put_now("b", "phantom");
  EXPECT_EQ(commit(*t), Errc::kConflict);
}

TEST_P(KeyvalIsolationTest, EraseInACheckedRangeConflicts) {
  put_now("a", "0");
  put_now("b", "0");
  const auto t = begin();
  EXPECT_EQ(range(*t, "a", "d").size(), 2U);
  put(*t, "sum", "2");
  erase_now("b");
  EXPECT_EQ(commit(*t), Errc::kConflict);
}

TEST_P(KeyvalIsolationTest, EmptyCheckedRangeConflictsWithAnInsert) {
  const auto t = begin();
  EXPECT_EQ(range(*t, "dir/", "dir0", 1), Entries{});  // as in rmdir: no entry is left
  put(*t, "removed", "1");
  put_now("dir/file", "1");
  EXPECT_EQ(commit(*t), Errc::kConflict);
}

TEST_P(KeyvalIsolationTest, ChangesOutsideTheRangeDoNotConflict) {
  for (const char* key : {"a", "b", "c", "d"}) put_now(key, "0");
  const auto t = begin();
  EXPECT_EQ(range(*t, "b", "d").size(), 2U);
  put(*t, "sum", "2");
  put_now("a", "1");
  put_now("d", "1");
  EXPECT_EQ(commit(*t), Errc::kOk);
}

TEST_P(KeyvalIsolationTest, LimitedRangeIsCheckedUpToItsLastEntry) {
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

TEST_P(KeyvalIsolationTest, SnapshotReadsNeverConflict) {
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

TEST_P(KeyvalIsolationTest, BlindWritesNeverConflictAndTheLastCommitWins) {
  const auto first = begin();
  const auto second = begin();
  put(*first, "k", "1");
  put(*second, "k", "2");
  EXPECT_EQ(commit(*second), Errc::kOk);
  EXPECT_EQ(commit(*first), Errc::kOk);
  EXPECT_EQ(get_now("k"), "1");
}

TEST_P(KeyvalIsolationTest, ReadOfAnOwnWriteIsNotChecked) {
  const auto t = begin();
  put(*t, "k", "mine");
  EXPECT_EQ(get(*t, "k"), "mine");
  put_now("k", "theirs");
  EXPECT_EQ(commit(*t), Errc::kOk);
  EXPECT_EQ(get_now("k"), "mine");
}

TEST_P(KeyvalIsolationTest, ConflictNeedsAChangeAfterBegin) {
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

TEST_P(KeyvalIsolationTest, WriteSkewIsPrevented) {
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

TEST_P(KeyvalIsolationTest, CommitsInFlightConflictAlready) {
  put_now("k", "0");
  const auto first = begin();
  const auto second = begin();
  EXPECT_EQ(get(*first, "k"), "0");
  EXPECT_EQ(get(*second, "k"), "0");
  put(*first, "k", "1");
  put(*second, "k", "2");
  const auto one = start_commit(*first);
  const auto third = begin();  // it begins between a commit's decision and its completion
  const auto third_read = start_get(*third, "k");
  const auto two = start_commit(*second);
  EXPECT_EQ(wait(*one).status, Errc::kOk);
  EXPECT_EQ(wait(*two).status, Errc::kConflict);
  const KeyvalCompletion read = wait(*third_read);
  put(*third, "k", "3");
  const bool saw = as_text(*read.value) == "1";
  const Errc outcome = commit(*third);
  if (!saw) EXPECT_EQ(outcome, Errc::kConflict);
  EXPECT_EQ(get_now("k"), outcome == Errc::kOk ? "3" : "1");
}

TEST_P(KeyvalIsolationTest, BeginAfterTheCompletionSeesTheCommit) {
  for (int i = 0; i < 50; ++i) {
    const auto t = begin();
    put(*t, "k", std::to_string(i));
    const Durability durability = i % 5 == 0 ? Durability::kMachine : Durability::kProcess;
    ASSERT_EQ(commit(*t, durability), Errc::kOk);
    ASSERT_EQ(get_now("k"), std::to_string(i));
  }
}

TEST_P(KeyvalIsolationTest, ManyCommitsInFlightApplyInOrder) {
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

TEST_P(KeyvalIsolationTest, OverflownConflictWindowConflicts) {
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
  EXPECT_EQ(commit(*old), Errc::kConflict);  // it may be valid, but the store has forgotten old commits
  EXPECT_EQ(commit(*blind), Errc::kOk);
  EXPECT_EQ(commit(*snapshot), Errc::kOk);
}

INSTANTIATE_TEST_SUITE_P(Modules, KeyvalIsolationTest, testing::ValuesIn(keyval_backend_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spate::trove
