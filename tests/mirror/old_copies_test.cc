// SPDX-License-Identifier: Apache-2.0
// Copies on a server whose place another one has taken: they are removed, and shown until they are gone.
#include "tests/mirror/replacement_fixture.h"

namespace spate::cluster {
namespace {

using namespace std::chrono_literals;

/// Replaces a datafile by one that was changed long ago. No process uses the disk.
void make_old(World& world, trove::SimDisk& disk, DatafileId datafile) {
  const trove::SimDisk::ProcessId process = disk.attach();
  Bytes data = copy_of(9);
  const Extent range{0, data.size()};
  const MutableByteView memory(data);
  trove::BytestreamRequest request;
  request.id = datafile;
  request.now = WallTime{1};
  trove::BytestreamCompletion done;
  request.op = trove::BytestreamOp::kRemove;
  disk.post(process, request, nullptr, done);
  world.run_for(1s);
  disk.run_until(world.now());
  request.op = trove::BytestreamOp::kWrite;
  request.extents = {&range, 1};
  request.memory = {&memory, 1};
  disk.post(process, request, nullptr, done);
  world.run_for(1s);
  disk.run_until(world.now());
  disk.detach(process);
  ASSERT_EQ(disk.content(datafile), data);
}

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

TEST_F(ReplacementTest, ACopyThatNoListHasIsRemovedAfterARestart) {
  begin(options_of(3));
  const ServerId dead = mirrors_->backup_of(*file_);
  io::IoServiceTestAccess::unlist(*world().server(dead)->io(), mirrors_->group_of(*file_).id, {file_->handle(), 0});
  world().run_for(1s);
  mirrors_->kill(dead);
  ASSERT_TRUE(is_replaced(dead)) << "nobody has taken its place";
  ASSERT_EQ(datafiles(dead), 1U);
  mirrors_->restart(dead);
  world().run_for(10s);
  EXPECT_EQ(datafiles(dead), 0U);
  EXPECT_EQ(mirrors_->differences(), "");
  expect_content();
}

/// The file's handle was given out once more, as after a meta store was put back. The copy is of the earlier file.
TEST_F(ReplacementTest, ACopyThatIsOlderThanItsFileStays) {
  begin(options_of(3));
  const ServerId dead = mirrors_->backup_of(*file_);
  io::IoServiceTestAccess::unlist(*world().server(dead)->io(), mirrors_->group_of(*file_).id, {file_->handle(), 0});
  world().run_for(1s);
  mirrors_->kill(dead);
  ASSERT_TRUE(is_replaced(dead)) << "nobody has taken its place";
  make_old(world(), *world().disks(dead).targets.front(), {file_->handle(), 0});
  mirrors_->restart(dead);
  world().run_for(30s);
  EXPECT_EQ(datafiles(dead), 1U);
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
