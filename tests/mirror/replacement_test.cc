// SPDX-License-Identifier: Apache-2.0
// A member that stays away is replaced by another server.
#include "tests/mirror/replacement_fixture.h"

namespace spate::cluster {
namespace {

using FilePtr = std::unique_ptr<client::File>;
using namespace std::chrono_literals;

TEST_F(ReplacementTest, AnotherServerReceivesTheCopyAfterTheTimeAndNotBefore) {
  begin(options_of(3));
  const ServerId dead = mirrors_->backup_of(*file_);
  kill(dead);
  const Bytes data = copy_of(2);
  write(data);
  world().run_for(kAfter - 3s);
  EXPECT_TRUE(is_member(dead)) << "it was replaced although nobody has room";
  EXPECT_FALSE(mirrors_->group_of(*file_).is_whole()) << "the time is not over";
  ASSERT_TRUE(is_replaced(dead)) << "nobody has taken its place";
  expect_content();
  // The new copy is as good as the first: it is the only one now.
  kill(mirrors_->primary_of(*file_));
  expect_content();
  write(copy_of(3));
  expect_content();
}

TEST_F(ReplacementTest, APrimaryThatStaysAwayIsReplacedToo) {
  begin(options_of(3));
  const ServerId dead = mirrors_->primary_of(*file_);
  kill(dead);
  write(copy_of(2));
  ASSERT_TRUE(is_replaced(dead)) << "nobody has taken its place";
  EXPECT_FALSE(is_member(dead));
  mirrors_->restart(dead);
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
  expect_content();
}

TEST_F(ReplacementTest, AServerThatComesBackInTimeKeepsItsPlace) {
  begin(options_of(3));
  const ServerId away = mirrors_->backup_of(*file_);
  kill(away);
  write(copy_of(2));
  world().run_for(kAfter - 5s);
  mirrors_->restart(away);
  world().run_for(kAfter);
  EXPECT_TRUE(is_member(away));
  EXPECT_TRUE(mirrors_->is_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
}

TEST_F(ReplacementTest, NobodyIsReplacedIfTheTimeIsZero) {
  WorldOptions options = options_of(3);
  options.rebuild_after = Duration(0);
  begin(options);
  const ServerId dead = mirrors_->backup_of(*file_);
  kill(dead);
  world().run_for(10min);
  EXPECT_TRUE(is_member(dead)) << "it was replaced although nobody has room";
}

TEST_F(ReplacementTest, AReplacedServerGivesItsSpaceBack) {
  begin(options_of(3));
  const ServerId dead = mirrors_->backup_of(*file_);
  kill(dead);
  ASSERT_TRUE(is_replaced(dead)) << "nobody has taken its place";
  EXPECT_EQ(datafiles(dead), 1U);
  mirrors_->restart(dead);
  world().run_for(10s);
  EXPECT_EQ(datafiles(dead), 0U);
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
  // It is a server like any other: new files have copies there.
  bool used = false;
  for (int i = 0; i < 12 && !used; ++i) {
    const FilePtr more = create("more" + std::to_string(i));
    EXPECT_OK(run(more->write(0, content_)));
    used = datafiles(dead) > 0;
  }
  EXPECT_TRUE(used) << "no new file has a copy on the server that was replaced";
}

/// The old copy is kept until it is of no use: the new one may be lost before it is complete.
TEST_F(ReplacementTest, AReplacedServerKeepsItsCopyUntilTheGroupIsWhole) {
  WorldOptions options = options_of(3);
  options.rebuild_rate = 64 * 1024;  // bytes a second: the new copy takes its time
  begin(options, copy_of(1, 12'000'000));
  const ServerId dead = mirrors_->backup_of(*file_);
  kill(dead);
  world().run_for(kAfter + 5s);
  ASSERT_FALSE(is_member(dead)) << "it has not been replaced";
  mirrors_->restart(dead);
  world().run_for(10s);
  ASSERT_FALSE(mirrors_->group_of(*file_).is_whole()) << "not as the scene wants it";
  EXPECT_EQ(datafiles(dead), 1U);
  // Its next process knows what it has to remove, too.
  mirrors_->kill(dead);
  mirrors_->restart(dead);
  world().run_for(5s);
  EXPECT_EQ(datafiles(dead), 1U);
  ASSERT_TRUE(mirrors_->become_whole(300s)) << "a group lacks a copy";
  EXPECT_EQ(datafiles(dead), 0U);
  EXPECT_EQ(mirrors_->differences(), "");
}

/// A server that is given much over a long time must not lose its place because its process restarts meanwhile.
TEST_F(ReplacementTest, AServerThatIsBroughtUpToDateForLongKeepsItsPlace) {
  WorldOptions options = options_of(3);
  options.rebuild_rate = 128 * 1024;
  begin(options, copy_of(1, 12'000'000));
  const ServerId empty = mirrors_->backup_of(*file_);
  kill(empty);
  world().run_for(5s);
  mirrors_->restart_empty(empty);
  world().run_for(kAfter + 5s);
  ASSERT_FALSE(mirrors_->group_of(*file_).is_whole()) << "not as the scene wants it";
  mirrors_->kill(empty);
  mirrors_->restart(empty);
  world().run_for(15s);
  EXPECT_TRUE(is_member(empty));
  ASSERT_TRUE(mirrors_->become_whole(300s)) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
}

/// A member receives everything. Its process restarts, and the record changes at once because another member fails.
TEST_F(ReplacementTest, AMemberThatRestartsWhileItJoinsStartsAgain) {
  WorldOptions options = options_of(3);
  options.replicas = 3;
  options.rebuild_after = Duration(0);
  options.rebuild_rate = 256 * 1024;
  begin(options, copy_of(1, 14'000'000));
  std::vector<ServerId> others = members();
  std::erase(others, mirrors_->primary_of(*file_));
  kill(others[0]);
  world().run_for(5s);
  mirrors_->restart_empty(others[0]);
  world().run_for(10s);
  ASSERT_FALSE(mirrors_->group_of(*file_).is_whole()) << "not as the scene wants it";
  mirrors_->kill(others[0]);
  mirrors_->restart(others[0]);
  mirrors_->kill(others[1]);
  world().run_for(20s);
  mirrors_->restart(others[1]);
  ASSERT_TRUE(mirrors_->become_whole(600s)) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
}

/// The servers are replaced in turn, so a server becomes a member again whose old copies are out of date.
TEST_F(ReplacementTest, AServerThatWasReplacedCanBecomeAMemberAgain) {
  begin(options_of(3));
  for (std::uint8_t turn = 2; turn < 6; ++turn) {
    const ServerId dead = turn % 2 == 0 ? mirrors_->backup_of(*file_) : mirrors_->primary_of(*file_);
    kill(dead);
    write(copy_of(turn, kCopyBytes + turn * 1000));
    ASSERT_TRUE(is_replaced(dead)) << "nobody has taken its place";
    world().run_for(25s);  // changes that both have leave the notes
    mirrors_->restart(dead);
    ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
    EXPECT_EQ(mirrors_->differences(), "");
    expect_content();
  }
}

/// A file that is removed while a server is no member must not appear again when it becomes one.
TEST_F(ReplacementTest, RemovedFilesStayRemovedOnAServerThatBecomesAMemberAgain) {
  WorldOptions options = options_of(3);
  options.rebuild_rate = 20'000;
  begin(options);
  const ServerId first = mirrors_->backup_of(*file_);
  kill(first);
  ASSERT_TRUE(is_replaced(first)) << "nobody has taken its place";
  ASSERT_OK(run(file_->close()));
  ASSERT_OK(run(client_->client().unlink(client::path_from_root("f"))));
  mirrors_->restart(first);
  world().run_for(20s);
  for (const ServerId server : world().servers()) EXPECT_EQ(datafiles(server), 0U) << server.value;
}

TEST_F(ReplacementTest, ASilentRoomIsNotReplaced) {
  begin(options_of(5));
  std::vector<ServerId> dead{mirrors_->backup_of(*file_)};
  for (const ServerId server : world().servers()) {
    if (dead.size() < 2 && server != kMetaServer && !is_member(server)) dead.push_back(server);
  }
  for (const ServerId server : dead) kill(server);
  world().run_for(kAfter * 3);
  EXPECT_TRUE(is_member(dead.front())) << "two of five servers are silent";
  mirrors_->restart(dead.back());
  EXPECT_TRUE(is_replaced(dead.front())) << "one of five servers is silent, and nobody takes its place";
}

TEST_F(ReplacementTest, NewFilesHaveNoCopyOnAServerThatStaysAway) {
  begin(options_of(4));
  const ServerId dead = mirrors_->backup_of(*file_);
  kill(dead);
  ASSERT_TRUE(is_replaced(dead)) << "nobody has taken its place";
  for (int i = 0; i < 30; ++i) {
    const MonoTime begun = world().now();
    file_ = create("new" + std::to_string(i));
    write(copy_of(7, 1000));
    EXPECT_LT(world().now() - begun, 1s) << i;
    EXPECT_FALSE(is_member(dead)) << i;
  }
}

TEST_F(ReplacementTest, AFormerPrimaryIsNotHeardAnyMore) {
  begin(options_of(3));
  const ServerId old = mirrors_->primary_of(*file_);
  world().pause(old, true);
  write(copy_of(2));
  ASSERT_TRUE(is_replaced(old)) << "nobody has taken its place";
  write(copy_of(3));
  world().pause(old, false);
  expect_content();
  write(copy_of(4));
  expect_content();
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
}

TEST_F(ReplacementTest, OfThreeCopiesTwoAreReplaced) {
  WorldOptions options = options_of(7);
  options.replicas = 3;
  begin(options);
  std::vector<ServerId> dead = members();
  std::erase(dead, mirrors_->primary_of(*file_));
  for (const ServerId server : dead) kill(server);
  write(copy_of(2));
  for (const ServerId server : dead) EXPECT_TRUE(is_replaced(server)) << server.value;
  kill(mirrors_->primary_of(*file_));
  expect_content();
}

}  // namespace
}  // namespace spate::cluster
