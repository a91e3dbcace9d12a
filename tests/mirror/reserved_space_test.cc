// SPDX-License-Identifier: Apache-2.0
// A server that returns has space reserved where the other copy of a datafile has it.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "tests/mirror/mirror_world.h"
#include "trove/sim/sim_file.h"

namespace spate::cluster {
namespace {

using namespace std::chrono_literals;
using trove::SimFile;

constexpr std::uint64_t kReservedSize = 5U << 20U;  // several regions of the change log
constexpr std::uint64_t kWrittenOfIt = 100'000;

class ReservedSpaceTest : public ::testing::Test {
 protected:
  ReservedSpaceTest() : mirrors_(), client_(mirrors_.world.start_client()) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = run(client_.client().create(client::path_from_root("f"), kMirrorOpen, object));
    SPATE_CHECK(made.has_value());
    file_ = *std::move(made);
    SPATE_CHECK(mirrors_.become_whole());
    lost_ = mirrors_.backup_of(*file_);
  }

  template <typename T>
  T run(job::Task<T> task) {
    return call(mirrors_.world, client_, std::move(task));
  }
  void write_and_reserve() {
    ASSERT_OK(run(file_->write(kReservedSize - kWrittenOfIt, Bytes(kWrittenOfIt, std::byte{7}))));
    ASSERT_OK(run(file_->allocate(0, kReservedSize)));
  }
  void lose_backup() {
    mirrors_.kill(lost_);
    mirrors_.world.run_for(5s);  // it is left out
  }
  void expect_return() {
    EXPECT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
    EXPECT_EQ(mirrors_.differences(), "");
  }
  std::uint64_t space_at(ServerId server) {
    const trove::SpaceInfo space = disk_of(server).space();
    return space.total_bytes - space.free_bytes;
  }
  trove::SimDisk& disk_of(ServerId server) { return *mirrors_.world.disks(server).targets.front(); }

  MirrorWorld mirrors_;
  ClientProcess& client_;
  std::unique_ptr<client::File> file_;
  ServerId lost_;
};

TEST_F(ReservedSpaceTest, IsReservedAtAServerThatWasAway) {
  lose_backup();
  write_and_reserve();
  mirrors_.restart(lost_);
  expect_return();
  EXPECT_GE(space_at(lost_), kReservedSize);
}

TEST_F(ReservedSpaceTest, IsReservedAtAServerThatLacksAll) {
  write_and_reserve();
  lose_backup();
  mirrors_.restart_empty(lost_);
  expect_return();
  EXPECT_GE(space_at(lost_), kReservedSize);
}

TEST_F(ReservedSpaceTest, HolesTakeNoSpaceAtAServerThatReturns) {
  lose_backup();
  ASSERT_OK(run(file_->write(kReservedSize - kWrittenOfIt, Bytes(kWrittenOfIt, std::byte{7}))));
  ASSERT_OK(run(file_->allocate(0, kReservedSize / 2)));
  mirrors_.restart(lost_);
  expect_return();
  EXPECT_LT(space_at(lost_), 2 * kWrittenOfIt);
}

/// The content counts for more than the space: the server returns with the one, and does not fill its device by the
/// other.
TEST_F(ReservedSpaceTest, AServerWithoutRoomForItReturns) {
  lose_backup();
  write_and_reserve();
  disk_of(lost_).set_capacity(space_at(lost_) + kReservedSize / 2);
  mirrors_.restart(lost_);
  expect_return();
  EXPECT_LT(space_at(lost_), 2 * kWrittenOfIt);
}

/// Its space comes in two pieces here, and there is room for the first one only.
TEST_F(ReservedSpaceTest, AServerWithRoomForAPartOfItGivesThatBack) {
  constexpr std::uint64_t kRegion = 1U << 20U;
  write_and_reserve();
  mirrors_.world.run_for(60s);  // all members have it, so nothing is noted any more
  lose_backup();
  for (const std::uint64_t region : {std::uint64_t{0}, std::uint64_t{2}})
    ASSERT_OK(run(file_->allocate(region * kRegion, kRegion)));
  disk_of(lost_).set_capacity(space_at(lost_) - kRegion);
  mirrors_.restart(lost_);
  expect_return();
  EXPECT_LE(space_at(lost_), kReservedSize - 2 * kRegion);
}

}  // namespace
}  // namespace spate::cluster
