// SPDX-License-Identifier: Apache-2.0
// Single faults of mirrored files, step by step.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using FilePtr = std::unique_ptr<client::File>;
using namespace std::chrono_literals;

constexpr Duration kFailOver = 4s;

class MirrorTest : public ::testing::Test {
 protected:
  explicit MirrorTest(const WorldOptions& options = mirror_options())
      : mirrors_(options), client_(mirrors_.world.start_client()) {}

  template <typename T>
  T run(job::Task<T> task) {
    return call(mirrors_.world, client_, std::move(task));
  }
  /// Creates a file with one datafile, on two servers.
  FilePtr create(const std::string& name) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = run(client_.client().create(client::path_from_root(name), kMirrorOpen, object));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  static Bytes bytes_of(std::uint64_t seed, std::size_t size) {
    Bytes out(size);
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>((i * 31 + seed * 7 + i / 251) % 251 + 1);
    return out;
  }
  void write(client::File& file, std::uint64_t offset, const Bytes& data) {
    if (content_.size() < offset + data.size()) content_.resize(offset + data.size());
    std::ranges::copy(data, content_.begin() + static_cast<std::ptrdiff_t>(offset));
    EXPECT_OK(run(file.write(offset, data)));
  }
  void expect_content(client::File& file) {
    Bytes found(content_.size() + 100);
    const auto got = run(file.read(0, found));
    ASSERT_OK(got);
    found.resize(*got);
    EXPECT_BYTES(found, content_);
  }
  std::uint64_t forwards_of(const FilePtr&) const { return forwards_; }
  void count_forwards() {
    world().watch().on_arrival([this](const WatchedRequest& request) {
      if (request.op == wire::Op::kMirrorForward) ++forwards_;
    });
  }
  World& world() { return mirrors_.world; }

  MirrorWorld mirrors_;
  ClientProcess& client_;
  Bytes content_;
  std::uint64_t forwards_ = 0;
};

TEST_F(MirrorTest, AWriteIsOnBothServersBeforeItIsAnswered) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 50'000));
  write(*file, 3000, bytes_of(2, 2000));
  const ServerId primary = mirrors_.primary_of(*file);
  const ServerId backup = mirrors_.backup_of(*file);
  const DatafileId id{file->handle(), 0};
  EXPECT_EQ(world().disks(primary).targets.front()->content(id), content_);
  EXPECT_EQ(world().disks(backup).targets.front()->content(id), content_);
  expect_content(*file);
}

TEST_F(MirrorTest, TruncatePunchAllocateAndRemoveReachBoth) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 40'000));
  ASSERT_OK(run(file->truncate(30'000)));
  content_.resize(30'000);
  ASSERT_OK(run(file->punch(1000, 9000)));
  std::fill_n(content_.begin() + 1000, 9000, std::byte{0});
  ASSERT_OK(run(file->sync()));
  expect_content(*file);
  EXPECT_EQ(mirrors_.differences(), "");
  ASSERT_OK(run(file->close()));
  ASSERT_OK(run(client_.client().unlink(client::path_from_root("f"))));
  world().run_for(10s);
  for (const ServerId server : world().servers()) {
    for (const auto& disk : world().disks(server).targets) EXPECT_THAT(disk->list({}, 10), ::testing::IsEmpty());
  }
}

TEST_F(MirrorTest, KilledPrimaryIsReplacedWithinFourSeconds) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 20'000));
  const ServerId dead = mirrors_.primary_of(*file);
  mirrors_.kill(dead);
  const MonoTime killed = world().now();
  write(*file, 5000, bytes_of(2, 6000));
  EXPECT_LE(world().now() - killed, kFailOver);
  expect_content(*file);
  EXPECT_NE(mirrors_.primary_of(*file), dead);
  mirrors_.restart(dead);
  ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_.differences(), "");
  expect_content(*file);
}

TEST_F(MirrorTest, KilledBackupHoldsWritesUpForFourSecondsAtMost) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 20'000));
  const ServerId dead = mirrors_.backup_of(*file);
  mirrors_.kill(dead);
  const MonoTime killed = world().now();
  write(*file, 5000, bytes_of(2, 6000));
  EXPECT_LE(world().now() - killed, kFailOver);
  mirrors_.restart(dead);
  ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_.differences(), "");
}

TEST_F(MirrorTest, ServersDieOneAfterTheOther) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 20'000));
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    const ServerId dead = turn % 2 == 0 ? mirrors_.primary_of(*file) : mirrors_.backup_of(*file);
    mirrors_.kill(dead, turn < 2 ? Death::kProcess : Death::kMachine);
    write(*file, turn * 3000, bytes_of(turn + 2, 5000));
    expect_content(*file);
    mirrors_.restart(dead);
    ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
    EXPECT_EQ(mirrors_.differences(), "");
  }
  expect_content(*file);
}

TEST_F(MirrorTest, AReturningServerGetsOnlyTheChanges) {
  const FilePtr file = create("f");
  constexpr std::uint64_t kMiB = 1U << 20U;
  write(*file, 0, bytes_of(1, 8 * kMiB));
  ASSERT_OK(run(file->sync()));
  world().run_for(25s);  // changes that both have synced leave the notes
  const ServerId dead = mirrors_.backup_of(*file);
  mirrors_.kill(dead);
  write(*file, 2 * kMiB + 1000, bytes_of(2, 5000));
  world().run_for(1s);
  count_forwards();
  mirrors_.restart(dead);
  ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  EXPECT_LE(forwards_, 4U);
  EXPECT_EQ(mirrors_.differences(), "");
}

TEST_F(MirrorTest, AnEmptyServerGetsEverything) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 3'000'000));
  ASSERT_OK(run(file->sync()));
  world().run_for(25s);
  for (const bool primary : {true, false}) {
    const ServerId dead = primary ? mirrors_.primary_of(*file) : mirrors_.backup_of(*file);
    mirrors_.kill(dead, Death::kMachine);
    mirrors_.restart_empty(dead);
    world().run_for(3s);
    expect_content(*file);
    ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
    EXPECT_EQ(mirrors_.differences(), "");
  }
  expect_content(*file);
}

TEST_F(MirrorTest, APausedPrimaryAnswersNothingOldAfterwards) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 20'000));
  const ServerId old = mirrors_.primary_of(*file);
  world().pause(old, true);
  write(*file, 0, bytes_of(2, 20'000));
  EXPECT_NE(mirrors_.primary_of(*file), old);
  const auto late = begin_call(client_, file->write(100, content_));
  world().pause(old, false);
  EXPECT_OK(end_call(world(), late));
  std::ranges::copy(Bytes(content_), content_.begin());
  Bytes shifted = content_;
  content_.resize(20'100);
  std::ranges::copy(shifted, content_.begin() + 100);
  expect_content(*file);
  ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_.differences(), "");
  expect_content(*file);
}

TEST_F(MirrorTest, ServesWhileMembersCannotReachEachOther) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 20'000));
  const ServerId a = mirrors_.primary_of(*file);
  const ServerId b = mirrors_.backup_of(*file);
  for (const bool both : {true, false}) {
    for (const bool forth : {true, false}) {
      if (both) mirrors_.cut(a, b, true);
      if (!both) world().fabric().links().partition_one_way((forth ? a : b).value, (forth ? b : a).value, true);
      const MonoTime begun = world().now();
      write(*file, 0, bytes_of(3, 20'000));
      EXPECT_LE(world().now() - begun, kFailOver);
      expect_content(*file);
      mirrors_.cut(a, b, false);
      world().fabric().links().partition_one_way((forth ? a : b).value, (forth ? b : a).value, false);
      ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
      EXPECT_EQ(mirrors_.differences(), "");
    }
  }
}

TEST_F(MirrorTest, ServesOnWithoutTheMetaServer) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 20'000));
  world().kill_server(kMetaServer, Death::kProcess);
  world().run_for(5s);
  write(*file, 100, bytes_of(2, 9000));
  expect_content(*file);
  world().start_server(kMetaServer);
  world().run_for(5s);
  EXPECT_TRUE(mirrors_.is_whole()) << "a group lacks a copy";
}

TEST_F(MirrorTest, ADiskThatFailsLeavesItsServerOut) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 20'000));
  for (const bool primary : {false, true}) {
    const ServerId bad = primary ? mirrors_.primary_of(*file) : mirrors_.backup_of(*file);
    auto& disk = *world().disks(bad).targets.front();
    disk.faults().refuse(trove::BytestreamOp::kWrite, Errc::kIoError);
    write(*file, 1000, bytes_of(primary ? 5 : 4, 9000));
    expect_content(*file);
    EXPECT_NE(mirrors_.primary_of(*file), bad);
    disk.faults().clear();
    ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
    EXPECT_EQ(mirrors_.differences(), "");
  }
}

TEST_F(MirrorTest, AFullMemberFailsTheWriteAndNothingElse) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 20'000));
  for (const bool primary : {false, true}) {
    const ServerId full = primary ? mirrors_.primary_of(*file) : mirrors_.backup_of(*file);
    auto& disk = *world().disks(full).targets.front();
    disk.faults().refuse(trove::BytestreamOp::kWrite, Errc::kNoSpace);
    const Bytes more = bytes_of(9, 9000);
    EXPECT_ERRC(run(file->write(20'000, more)), Errc::kNoSpace);
    disk.faults().clear();
    ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
    expect_content(*file);
    EXPECT_EQ(mirrors_.differences(), "");
  }
}

constexpr Duration kSlowSync = 100ms;

class SlowDisksTest : public MirrorTest {
 protected:
  static WorldOptions options() {
    WorldOptions options = mirror_options();
    options.sync_latency = kSlowSync;
    return options;
  }
  SlowDisksTest() : MirrorTest(options()) {}
};

TEST_F(SlowDisksTest, AnFsyncWaitsForTheDisksOfAllMembersAtTheSameTime) {
  const FilePtr file = create("f");
  write(*file, 0, bytes_of(1, 20'000));
  const MonoTime begun = world().now();
  EXPECT_OK(run(file->sync()));
  EXPECT_LT(world().now() - begun, kSlowSync * 3 / 2);
}

}  // namespace
}  // namespace spate::cluster
