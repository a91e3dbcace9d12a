// SPDX-License-Identifier: Apache-2.0
// Files whose writes need more than one copy: with fewer, writes wait, and reads go on.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/mirror/mirror_run.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {
namespace {

using ::testing::HasSubstr;
using FilePtr = std::unique_ptr<client::File>;
using namespace std::chrono_literals;

constexpr std::size_t kFileBytes = 9000;
/// Longer than a silent member stays in the record, shorter than the writer's deadline.
constexpr Duration kLongEnough = 8s;

client::Options patient() {
  client::Options options = small_client_options({}, {}, {});
  options.deadline = 1min;
  return options;
}

Bytes bytes_of_only(std::uint8_t with) { return Bytes(kFileBytes, static_cast<std::byte>(with)); }

WorldOptions min_options(std::uint32_t replicas, std::uint32_t min) {
  WorldOptions options = mirror_options();
  options.replicas = replicas;
  options.io_servers = replicas;
  options.min_copies = min;
  return options;
}

class MinCopiesTest : public ::testing::Test {
 protected:
  explicit MinCopiesTest(const WorldOptions& options = min_options(2, 2))
      : mirrors_(options), writer_(world().start_client(patient())), reader_(world().start_client()) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = call(world(), writer_, writer_.client().create(client::path_from_root("f"), kMirrorOpen, object));
    SPATE_CHECK(made.has_value());
    file_ = *std::move(made);
    auto opened = call(world(), reader_, reader_.client().open(client::path_from_root("f"), wire::kOpenRead));
    SPATE_CHECK(opened.has_value());
    read_only_ = *std::move(opened);
    EXPECT_OK(call(world(), writer_, file_->write(0, one_)));
  }
  ~MinCopiesTest() override { planted_defect = Defect::kNone; }

  World& world() { return mirrors_.world; }
  void expect_read(const Bytes& wanted) {
    Bytes found(kFileBytes);
    EXPECT_OK(call(world(), reader_, read_only_->read(0, found)));
    EXPECT_BYTES(found, wanted);
  }
  /// Kills a member, and writes. Says whether the write is answered while the member is away.
  bool answered_without(ServerId server) {
    mirrors_.kill(server);
    const auto pending = begin_call(writer_, file_->write(0, two_));
    world().run_for(kLongEnough);
    const bool answered = pending->has_value();
    if (!answered) expect_read(one_);
    mirrors_.restart(server);
    EXPECT_OK(end_call(world(), pending));
    return answered;
  }

  struct Lost {
    ServerId primary;
    ServerId backup;
  };
  /// Nothing from the primary reaches the backup any more, while the record still says that two serve. The backup does
  /// not reach the meta server: otherwise it might lead, and the primary would not answer for that reason.
  Lost lose_the_backup() {
    const Lost lost{mirrors_.primary_of(*file_), mirrors_.backup_of(*file_)};
    world().fabric().links().partition_one_way(lost.primary.value, lost.backup.value, true);
    mirrors_.cut(lost.backup, kMetaServer, true);
    world().run_for(1s);  // so that the next call waits until the record is changed, and is not sent again before
    return lost;
  }
  void expect_left_out(const Lost& lost) {
    EXPECT_EQ(mirrors_.primary_of(*file_), lost.primary) << "another server leads; this tests nothing";
    EXPECT_FALSE(mirrors_.group_of(*file_).is_whole()) << "the backup is not left out; this tests nothing";
  }
  void heal(const Lost& lost) {
    world().fabric().links().partition_one_way(lost.primary.value, lost.backup.value, false);
    mirrors_.cut(lost.backup, kMetaServer, false);
  }

  MirrorWorld mirrors_;
  ClientProcess& writer_;
  ClientProcess& reader_;
  FilePtr file_;
  FilePtr read_only_;
  const Bytes one_ = bytes_of_only(1);
  const Bytes two_ = bytes_of_only(2);
};

TEST_F(MinCopiesTest, WithoutTheBackupWritesWaitAndReadsGoOn) {
  EXPECT_FALSE(answered_without(mirrors_.backup_of(*file_))) << "a write is answered with one copy";
  ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_.differences(), "");
  expect_read(two_);
}

TEST_F(MinCopiesTest, WithoutThePrimaryWritesWaitAndReadsGoOn) {
  EXPECT_FALSE(answered_without(mirrors_.primary_of(*file_))) << "a write is answered with one copy";
  ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_.differences(), "");
  expect_read(two_);
}

TEST_F(MinCopiesTest, APlantedDefectIsFound) {
  planted_defect = Defect::kMinIgnored;
  EXPECT_TRUE(answered_without(mirrors_.backup_of(*file_))) << "the test does not see that the rule is missing";
}

TEST_F(MinCopiesTest, AWriteWhoseSecondCopyIsLostOnTheWayIsNotAnswered) {
  const Lost lost = lose_the_backup();
  const auto pending = begin_call(writer_, file_->write(0, two_));
  world().run_for(kLongEnough);
  EXPECT_FALSE(pending->has_value()) << "a write is answered with one copy";
  expect_left_out(lost);
  expect_read(one_);
  heal(lost);
  EXPECT_OK(end_call(world(), pending));
  ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_.differences(), "");
  expect_read(two_);
}

TEST_F(MinCopiesTest, AnFsyncWhoseSecondCopyIsLostOnTheWayIsNotAnswered) {
  const Lost lost = lose_the_backup();
  const auto pending = begin_call(writer_, file_->sync());
  world().run_for(kLongEnough);
  EXPECT_FALSE(pending->has_value()) << "an fsync is answered with one copy";
  expect_left_out(lost);
  heal(lost);
  EXPECT_OK(end_call(world(), pending));
}

TEST_F(MinCopiesTest, AnFsyncWaitsToo) {
  const ServerId backup = mirrors_.backup_of(*file_);
  mirrors_.kill(backup);
  world().run_for(4s);
  const auto pending = begin_call(writer_, file_->sync());
  world().run_for(kLongEnough);
  EXPECT_FALSE(pending->has_value()) << "an fsync is answered with one copy";
  mirrors_.restart(backup);
  EXPECT_OK(end_call(world(), pending));
}

TEST_F(MinCopiesTest, TheErrorAfterTheDeadlineSaysWhy) {
  mirrors_.kill(mirrors_.backup_of(*file_));
  ClientProcess& hasty = world().start_client();
  auto opened = call(world(), hasty, hasty.client().open(client::path_from_root("f"), kMirrorOpen));
  ASSERT_OK(opened);
  const auto failed = call(world(), hasty, (*opened)->write(0, two_));
  EXPECT_ERRC(failed, Errc::kTimeout);
  EXPECT_THAT(failed.error().message(), HasSubstr("has 1 of at least 2 copies (min_copies)"));
  expect_read(one_);
}

class TwoOfThreeTest : public MinCopiesTest {
 protected:
  TwoOfThreeTest() : MinCopiesTest(min_options(3, 2)) {}
};

TEST_F(TwoOfThreeTest, OneCopyMayBeAwayAndTwoMayNot) {
  std::vector<ServerId> others;
  for (const GroupMember& member : mirrors_.group_of(*file_).members) {
    if (server_of(member.target) != mirrors_.primary_of(*file_)) others.push_back(server_of(member.target));
  }
  mirrors_.kill(others[0]);
  EXPECT_OK(call(world(), writer_, file_->write(0, one_)));
  EXPECT_FALSE(answered_without(others[1])) << "a write is answered with one copy";
  mirrors_.restart(others[0]);
  ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_.differences(), "");
}

/// A new copy elsewhere counts as well.
TEST(MinCopiesReplaced, WritesGoOnWhenAnotherServerHasTheCopy) {
  WorldOptions options = min_options(2, 2);
  options.io_servers = 3;
  options.rebuild_after = 5s;
  MirrorWorld mirrors(options);
  ClientProcess& client = mirrors.world.start_client(patient());
  client::NewObject object;
  object.layout.slot_count = 1;
  auto made = call(mirrors.world, client, client.client().create(client::path_from_root("f"), kMirrorOpen, object));
  ASSERT_OK(made);
  const FilePtr file = *std::move(made);
  ASSERT_OK(call(mirrors.world, client, file->write(0, bytes_of_only(1))));
  mirrors.world.run_for(3s);
  mirrors.kill(mirrors.backup_of(*file));
  EXPECT_OK(call(mirrors.world, client, file->write(0, bytes_of_only(2))));
}

TEST(MinCopiesRun, NoCallFailsAndNothingIsLost) {
  MirrorRunOptions options;
  options.min_copies = 2;
  for (options.seed = 1; options.seed <= 3; ++options.seed) {
    const MirrorRunResult result = run_mirrored(options);
    EXPECT_EQ(result.failure, "") << "seed " << options.seed;
    EXPECT_GT(result.operations, 100U);
  }
}

}  // namespace
}  // namespace spate::cluster
