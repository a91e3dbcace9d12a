// SPDX-License-Identifier: Apache-2.0
// Copies on a server whose place another one has taken: they are removed, and shown until they are gone.
#include "tests/mirror/replacement_fixture.h"

namespace spate::cluster {
namespace {

using namespace std::chrono_literals;

TEST_F(ReplacementTest, OldCopiesThatCannotBeRemovedAreShownAndTriedEverMoreSeldom) {
  begin(options_of(3));
  const ServerId dead = mirrors_->backup_of(*file_);
  kill(dead);
  ASSERT_TRUE(is_replaced(dead)) << "nobody has taken its place";
  mirrors_->restart(dead);
  refuse_removals(dead, true);
  world().run_for(100s);
  EXPECT_EQ(old_copies(dead), 1U);
  EXPECT_GE(refusals(dead), 3U);
  EXPECT_LE(refusals(dead), 9U);
  refuse_removals(dead, false);
  world().run_for(35s);
  EXPECT_EQ(old_copies(dead), 0U);
  EXPECT_EQ(datafiles(dead), 0U);
}

/// A server is chosen again, and is to keep the copy on another storage device. Until the old copy is gone, it accepts
/// no record.
TEST_F(ReplacementTest, AMemberThatCannotRemoveItsOldCopyTriesItEverMoreSeldom) {
  WorldOptions options = options_of(3);
  options.doubled = 3;
  begin(options);
  ASSERT_TRUE(find_file_that_would_move()) << "no file's copy would move to another device";
  write(copy_of(2));
  const ServerId first = mirrors_->backup_of(*file_);
  kill(first);
  ASSERT_TRUE(is_replaced(first)) << "nobody has taken its place";
  const ServerId second = mirrors_->backup_of(*file_);
  kill(second);
  world().run_for(5s);
  refuse_removals(first, true);
  mirrors_->restart(first);
  const MonoTime limit = world().now() + kAfter + 30s;
  while (!is_member(first) && world().now() < limit) world().run_for(100ms);
  ASSERT_TRUE(is_member(first)) << "it is not chosen again";
  const std::uint64_t before = refusals(first);
  world().run_for(30s);
  EXPECT_GE(old_copies(first), 1U);
  EXPECT_LE(refusals(first) - before, 20U) << "of a few groups, each of which may try five times";
  refuse_removals(first, false);
  ASSERT_TRUE(is_replaced(second, 90s)) << "the copy does not become whole";
  expect_content();
}

}  // namespace
}  // namespace spate::cluster
