// SPDX-License-Identifier: Apache-2.0
#include "trove/near_extents.h"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/expect.h"
#include "base/random.h"
#include "trove/execute.h"
#include "trove/local_target.h"

namespace spate::trove {
namespace {

constexpr TargetIdentity kNearTarget{FsId(1), TargetId(1)};
constexpr DatafileId kNearFile{Handle(1), 0};
constexpr WallTime kNearTime{1'800'000'000'000'000'000};

/// Reading or writing system calls that this process has made.
std::uint64_t calls(const std::string& field) {
  std::ifstream counters("/proc/self/io");
  for (std::string name; counters >> name;) {
    std::uint64_t value = 0;
    counters >> value;
    if (name == field) return value;
  }
  return 0;
}

std::vector<Extent> strided(std::size_t count, std::uint64_t size, std::uint64_t stride, std::uint64_t offset = 0) {
  std::vector<Extent> extents;
  for (std::uint64_t i = 0; i < count; ++i) extents.push_back({offset + i * stride, size});
  return extents;
}

Bytes filled(std::size_t size, int value) { return Bytes(size, static_cast<std::byte>(value)); }

class NearExtentsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    ASSERT_OK(create_target(root_ + "/target", kNearTarget));
    auto opened = LocalTarget::open(root_ + "/target", kNearTarget, LocalTargetOptions());
    ASSERT_OK(opened);
    target_ = *std::move(opened);
  }
  void TearDown() override {
    target_.reset();
    std::filesystem::remove_all(root_);
  }

  BytestreamCompletion run(BytestreamOp op, std::span<const Extent> extents, Bytes& data,
                           bool may_rewrite_gaps = true) {
    const std::array<MutableByteView, 1> memory{data};
    BytestreamRequest request;
    request.op = op;
    request.id = kNearFile;
    request.extents = extents;
    request.memory = memory;
    request.now = kNearTime;
    request.may_rewrite_gaps = may_rewrite_gaps;
    BytestreamCompletion done;
    execute(target_->store(), request, done);
    EXPECT_EQ(done.status, Errc::kOk);
    return done;
  }
  Bytes whole(std::size_t size) {
    Bytes data(size);
    const std::array<Extent, 1> all{{{0, size}}};
    data.resize(run(BytestreamOp::kRead, all, data).bytes);
    return data;
  }

  std::string root_ = "/dev/shm/spate-near-XXXXXX";
  std::shared_ptr<LocalTarget> target_;
};

TEST_F(NearExtentsTest, OneReadAndOneWriteMoveManySmallPieces) {
  const auto extents = strided(512, 64, 128);
  Bytes data = filled(512 * 64, 1);
  const std::uint64_t written = calls("syscw:");
  run(BytestreamOp::kWrite, extents, data);
  EXPECT_LE(calls("syscw:") - written, 8U);
  const std::uint64_t read = calls("syscr:");
  run(BytestreamOp::kRead, extents, data);
  EXPECT_LE(calls("syscr:") - read, 16U);
}

TEST_F(NearExtentsTest, WithoutPermissionToRewriteGapsEachPieceIsWrittenByItself) {
  Bytes data = filled(512 * 64, 1);
  const std::uint64_t written = calls("syscw:");
  run(BytestreamOp::kWrite, strided(512, 64, 128), data, false);
  EXPECT_GE(calls("syscw:") - written, 512U);
}

TEST_F(NearExtentsTest, BytesBetweenThePiecesStay) {
  Bytes old = filled(100'000, 7);
  run(BytestreamOp::kWrite, strided(1, old.size(), old.size()), old);
  SeededRandom random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Extent> extents;
    Bytes data;
    for (std::uint64_t at = random.below(2000); at < 110'000; at += random.below(round % 2 == 0 ? 300 : 3000)) {
      const std::uint64_t size = random.below(200);
      extents.push_back({at, size});
      at += size;
      for (std::uint64_t i = 0; i < size; ++i) data.push_back(static_cast<std::byte>(random.below(256)));
    }
    std::size_t from = 0;
    for (const Extent& extent : extents) {
      if (extent.size > 0) old.resize(std::max<std::size_t>(old.size(), extent.offset + extent.size));
      for (std::uint64_t i = 0; i < extent.size; ++i) old[extent.offset + i] = data[from++];
    }
    Bytes given = data;
    EXPECT_EQ(run(BytestreamOp::kWrite, extents, given).bytes, data.size());
    ASSERT_EQ(whole(200'000), old);
    Bytes got(data.size());
    EXPECT_EQ(run(BytestreamOp::kRead, extents, got).bytes, data.size());
    ASSERT_EQ(got, data);
  }
}

TEST_F(NearExtentsTest, AReadEndsWhereTheDatafileEnds) {
  Bytes old = filled(1000, 7);
  run(BytestreamOp::kWrite, strided(1, 1000, 1000), old);
  Bytes data = filled(20 * 64, 1);
  EXPECT_EQ(run(BytestreamOp::kRead, strided(20, 64, 128), data).bytes, 7U * 64 + 64);  // [896, 960) is the last
  EXPECT_EQ(run(BytestreamOp::kRead, strided(20, 64, 110), data).bytes, 9U * 64 + 10);  // of the tenth, [990, 1000)
}

TEST_F(NearExtentsTest, NoHoleIsFilled) {
  Bytes data = filled(100 * 16, 1);
  const BytestreamCompletion apart = run(BytestreamOp::kWrite, strided(100, 16, 8192), data);
  EXPECT_LE(apart.stat.allocated_bytes, 100U * 4096);
  const std::array<MutableByteView, 1> memory{data};
  const auto wide = strided(100, 16, 4096);
  EXPECT_EQ(span_at(PieceCursor(wide, memory, data.size()), true).pieces, 0U);
}

/// Two writers whose pieces alternate lose nothing, whichever of them copies.
TEST_F(NearExtentsTest, WritersBetweenEachOthersPiecesLoseNothing) {
  constexpr std::size_t kCount = 400;
  const auto work = [&](int who) {
    const auto extents = strided(kCount, 64, 256, static_cast<std::uint64_t>(who) * 64);
    for (int round = 1; round <= 100; ++round) {
      Bytes data = filled(kCount * 64, round);
      run(BytestreamOp::kWrite, extents, data, who != 3);
      Bytes got(data.size());
      run(BytestreamOp::kRead, extents, got);
      ASSERT_EQ(got, data);
    }
  };
  std::vector<std::thread> threads;
  for (int who = 0; who < 4; ++who) threads.emplace_back(work, who);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(whole(1 << 20), filled(kCount * 256, 100));
}

TEST_F(NearExtentsTest, OnlyASmallDistanceIsWorthACopy) {
  Bytes data = filled(64 * 2048, 1);
  const std::array<MutableByteView, 1> memory{data};
  const auto pieces = [&](std::uint64_t size, std::uint64_t stride) {
    const auto extents = strided(64, size, stride);
    return span_at(PieceCursor(extents, memory, 64 * size), true).pieces;
  };
  EXPECT_EQ(pieces(64, 512), 64U);
  EXPECT_EQ(pieces(64, 1200), 55U);  // as many as the buffer holds
  EXPECT_EQ(pieces(64, 4000), 0U);
  EXPECT_EQ(pieces(2048, 2100), 0U);
}

TEST_F(NearExtentsTest, ADescendingListIsReadPieceByPiece) {
  Bytes old = filled(1000, 7);
  run(BytestreamOp::kWrite, strided(1, 1000, 1000), old);
  std::vector<Extent> extents = strided(9, 10, 100);
  std::reverse(extents.begin(), extents.end());
  Bytes data(90);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  Bytes given = data;
  run(BytestreamOp::kWrite, extents, given);
  Bytes got(data.size());
  run(BytestreamOp::kRead, extents, got);
  EXPECT_EQ(got, data);
}

}  // namespace
}  // namespace spate::trove
