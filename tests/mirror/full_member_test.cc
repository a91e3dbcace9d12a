// SPDX-License-Identifier: Apache-2.0
// The disk of one copy has room for a part of a change: the change fails, no server is left out, and the copies are
// equal at once.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/mirror/mirror_world.h"
#include "trove/sim/sim_file.h"

namespace spate::cluster {
namespace {

using FilePtr = std::unique_ptr<client::File>;
using trove::SimFile;

constexpr std::uint64_t kPage = SimFile::kPage;
constexpr std::uint64_t kFileSize = 512 * 1024;

WorldOptions full_member_options(std::uint32_t replicas) {
  WorldOptions options = mirror_options();
  options.replicas = replicas;
  options.io_servers = replicas;
  return options;
}

/// Sets which member is full, and how many copies there are.
struct Who {
  const char* name;
  bool primary;
  std::uint32_t replicas;
};

class FullMemberTest : public ::testing::TestWithParam<Who> {
 protected:
  FullMemberTest() : mirrors_(full_member_options(GetParam().replicas)), client_(mirrors_.world.start_client()) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = run(client_.client().create(client::path_from_root("f"), kMirrorOpen, object));
    SPATE_CHECK(made.has_value());
    file_ = *std::move(made);
  }

  template <typename T>
  T run(job::Task<T> task) {
    return call(mirrors_.world, client_, std::move(task));
  }
  void write(std::uint64_t offset, std::size_t size, int with) {
    EXPECT_OK(run(file_->write(offset, Bytes(size, static_cast<std::byte>(with)))));
  }
  /// One page in four has data.
  void write_sparsely() {
    for (std::uint64_t at = 0; at < kFileSize; at += 4 * kPage) write(at + 100, 1000, 7);
  }
  trove::SimDisk& disk() {
    const ServerId full = GetParam().primary ? mirrors_.primary_of(*file_) : mirrors_.backup_of(*file_);
    return *mirrors_.world.disks(full).targets.front();
  }
  /// Leaves room for so many pages.
  void fill(std::uint64_t pages) {
    const trove::SpaceInfo space = disk().space();
    disk().set_capacity(space.total_bytes - space.free_bytes + pages * kPage);
    epoch_ = mirrors_.group_of(*file_).epoch;
  }
  Bytes content() {
    Bytes found(2 * kFileSize);
    const auto got = run(file_->read(0, found));
    EXPECT_OK(got);
    found.resize(got ? *got : 0);
    return found;
  }
  void expect_equal_copies() {
    EXPECT_EQ(mirrors_.group_of(*file_).epoch, epoch_) << "a member was left out";
    EXPECT_EQ(mirrors_.differences(), "");
    EXPECT_TRUE(mirrors_.is_whole()) << "a group lacks a copy";
  }

  MirrorWorld mirrors_;
  ClientProcess& client_;
  FilePtr file_;
  std::uint64_t epoch_ = 0;
};

TEST_P(FullMemberTest, AWriteAtTheEnd) {
  write(0, 20'000, 1);
  fill(2);
  EXPECT_ERRC(run(file_->write(20'000, Bytes(10 * kPage, std::byte{2}))), Errc::kNoSpace);
  expect_equal_copies();
}

TEST_P(FullMemberTest, TheFirstWrite) {
  EXPECT_TRUE(content().empty()) << "the group leads from now on";
  fill(2);
  EXPECT_ERRC(run(file_->write(100, Bytes(10 * kPage, std::byte{2}))), Errc::kNoSpace);
  expect_equal_copies();
}

TEST_P(FullMemberTest, AWriteOverDataAndHoles) {
  write_sparsely();
  fill(10);
  EXPECT_ERRC(run(file_->write(5000, Bytes(kFileSize, std::byte{2}))), Errc::kNoSpace);
  expect_equal_copies();
}

TEST_P(FullMemberTest, AnOverwriteNeedsNoRoom) {
  write(0, kFileSize, 1);
  fill(0);
  write(5000, 100'000, 2);
  expect_equal_copies();
}

TEST_P(FullMemberTest, ReservedSpace) {
  write_sparsely();
  const Bytes before = content();
  fill(10);
  EXPECT_ERRC(run(file_->allocate(0, 2 * kFileSize)), Errc::kNoSpace);
  expect_equal_copies();
  EXPECT_BYTES(content(), before);
}

TEST_P(FullMemberTest, SpaceThatIsReservedBehindTheEnd) {
  write_sparsely();
  const Bytes before = content();
  fill(0);
  EXPECT_ERRC(run(file_->extend_to(2 * kFileSize)), Errc::kNoSpace);
  expect_equal_copies();
  EXPECT_ERRC(run(file_->allocate(kFileSize, kFileSize)), Errc::kNoSpace);
  expect_equal_copies();
  EXPECT_BYTES(content(), before);
}

/// The program is told how much was copied, or that there is no room, as by a write.
TEST_P(FullMemberTest, ACopy) {
  write_sparsely();
  fill(10);
  EXPECT_ERRC(run(file_->copy_from(*file_, {0, kFileSize, kFileSize})), Errc::kNoSpace);
  expect_equal_copies();
}

TEST_P(FullMemberTest, ACopyOfHolesNeedsNoRoom) {
  write_sparsely();
  client::NewObject object;
  object.layout.slot_count = 1;
  auto holes = run(client_.client().create(client::path_from_root("holes"), kMirrorOpen, object));
  ASSERT_OK(holes);
  ASSERT_OK(run((*holes)->truncate(kFileSize)));
  fill(0);
  EXPECT_EQ(run(file_->copy_from(**holes, {0, 0, kFileSize})).value_or(0), kFileSize);
  expect_equal_copies();
}

/// Earlier reservations stay, so that other files cannot take their place.
TEST_P(FullMemberTest, AWriteThatFailsTakesNoReservedSpace) {
  write(0, 100, 1);
  ASSERT_OK(run(file_->allocate(0, kFileSize / 2)));
  fill(2);
  EXPECT_ERRC(run(file_->write(kFileSize / 2, Bytes(10 * kPage, std::byte{2}))), Errc::kNoSpace);
  expect_equal_copies();
  fill(0);
  write(0, kFileSize / 2, 3);
  expect_equal_copies();
}

TEST_P(FullMemberTest, AReservationThatFailsTakesNoEarlierOne) {
  write(kFileSize - 1, 1, 1);
  ASSERT_OK(run(file_->allocate(0, 4 * kPage)));
  fill(2);
  EXPECT_ERRC(run(file_->allocate(0, 15 * kPage)), Errc::kNoSpace);  // one request
  expect_equal_copies();
  fill(0);
  write(0, 4 * kPage, 3);
  expect_equal_copies();
}

TEST_P(FullMemberTest, HolesAndTruncationsNeedNoRoom) {
  write_sparsely();
  fill(0);
  EXPECT_OK(run(file_->punch(kPage / 2, kFileSize / 2)));
  EXPECT_OK(run(file_->truncate(kFileSize * 3 / 4 + 5)));
  EXPECT_OK(run(file_->truncate(kFileSize)));
  expect_equal_copies();
}

INSTANTIATE_TEST_SUITE_P(Each, FullMemberTest,
                         ::testing::Values(Who{"Backup", false, 2}, Who{"Primary", true, 2},
                                           Who{"OneOfThree", false, 3}, Who{"PrimaryOfThree", true, 3}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace spate::cluster
