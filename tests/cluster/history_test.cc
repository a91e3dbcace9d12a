// SPDX-License-Identifier: Apache-2.0
// The histories that the model of the name space accepts, and those that it refuses.
#include "tests/cluster/history.h"

#include "base/expect.h"

namespace spate::cluster {
namespace {

constexpr MonoTime kThen{Duration(1'000'000)};
constexpr MonoTime kLater{Duration(2'000'000)};

class HistoryTest : public ::testing::Test {
 protected:
  NodeId begin_mkdir(const std::string& name, int client) {
    NameOp op;
    op.kind = NameOpKind::kMkdir;
    op.path.parts = {names_.id(name)};
    op.mode = 0755;
    return history_.begin(op, client);
  }
  static Facts made(std::uint64_t handle) {
    Facts facts;
    facts.object = true;
    facts.handle = handle;
    facts.type = FileType::kDirectory;
    facts.mode = 0755;
    facts.links = 2;
    facts.mtime = 5;
    return facts;
  }
  static StoredTree left_with(const std::map<std::string, std::uint64_t>& directories) {
    StoredTree tree;
    const auto links = static_cast<std::uint32_t>(2 + directories.size());
    tree.nodes[kRootHandle.value] = {FileType::kDirectory, 01777, links, directories.size(), kRootHandle.value, {}, {}};
    for (const auto& [name, handle] : directories) {
      tree.nodes[handle] = {FileType::kDirectory, 0755, 2, 0, kRootHandle.value, {}, {}};
      tree.entries[{kRootHandle.value, name}] = handle;
    }
    return tree;
  }

  NameTable names_;
  Targets targets_{names_};
  History history_{names_, targets_};
};

/// Of two overlapping changes, the one that is answered first may be made last.
TEST_F(HistoryTest, ACrashMayTakeAnAnsweredChangeAndLeaveOneThatWasUnderWay) {
  const NodeId answered = begin_mkdir("a", 0);
  begin_mkdir("b", 1);
  ASSERT_TRUE(history_.answer(answered, made(7), kThen)) << history_.explain();
  EXPECT_TRUE(history_.lost(left_with({{"b", 8}}), kLater)) << history_.explain();
}

TEST_F(HistoryTest, ACrashLosesNothingDurable) {
  const NodeId answered = begin_mkdir("a", 0);
  begin_mkdir("b", 1);
  ASSERT_TRUE(history_.answer(answered, made(7), kThen)) << history_.explain();
  history_.durable(kThen);
  EXPECT_FALSE(history_.lost(left_with({{"b", 8}}), kLater));
}

TEST_F(HistoryTest, ACrashThatLosesAChangeLosesAllThatBeganAfterItsAnswer) {
  const NodeId answered = begin_mkdir("a", 0);
  ASSERT_TRUE(history_.answer(answered, made(7), kThen)) << history_.explain();
  begin_mkdir("b", 1);
  EXPECT_FALSE(history_.lost(left_with({{"b", 8}}), kLater));
}

/// A refusal to another client shows that a change is made, but not that it is on the disk.
TEST_F(HistoryTest, ACrashMayTakeAChangeThatOnlyARefusalHasShown) {
  begin_mkdir("a", 0);
  const NodeId refused = begin_mkdir("a", 1);
  Facts exists;
  exists.code = Errc::kExists;
  ASSERT_TRUE(history_.answer(refused, exists, kThen)) << history_.explain();
  history_.durable(kThen);
  EXPECT_TRUE(history_.lost(left_with({}), kLater)) << history_.explain();
}

/// A client refuses a change by itself, from a name that it has kept since before a crash. It happened in no state.
TEST_F(HistoryTest, AChangeThatItsClientRefusedFromKeptStateNeverHappened) {
  const NodeId refused = begin_mkdir("a", 0);
  const NodeId other = begin_mkdir("a", 1);
  ASSERT_TRUE(history_.had_no_effect(refused)) << history_.explain();
  ASSERT_TRUE(history_.answer(other, made(7), kThen)) << history_.explain();
  EXPECT_TRUE(history_.is(left_with({{"a", 7}}))) << history_.explain();
}

TEST_F(HistoryTest, AChangeThatOthersHaveSeenWasNotRefused) {
  const NodeId refused = begin_mkdir("a", 0);
  const NodeId other = begin_mkdir("a", 1);
  Facts exists;
  exists.code = Errc::kExists;
  ASSERT_TRUE(history_.answer(other, exists, kThen)) << history_.explain();
  EXPECT_FALSE(history_.had_no_effect(refused));
}

}  // namespace
}  // namespace spate::cluster
