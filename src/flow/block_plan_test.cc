// SPDX-License-Identifier: Apache-2.0
#include "flow/block_plan.h"

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "base/random.h"

namespace spate::flow {
namespace {

constexpr std::uint32_t kBlock = 512;

Bytes content(std::uint64_t size) {
  Bytes bytes(size);
  for (std::uint64_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

/// Simulates a device: reads whole blocks, and fewer bytes at the end of the file.
std::uint64_t read(const BlockPlan& plan, const Bytes& file) {
  std::uint64_t got = 0;
  for (std::size_t i = 0; i < plan.ranges().size(); ++i) {
    const Extent& range = plan.ranges()[i];
    EXPECT_EQ(range.offset % kBlock, 0U);
    EXPECT_EQ(range.size % kBlock, 0U);
    EXPECT_EQ(plan.memory()[i].size(), range.size);
    if (range.offset >= file.size()) return got;
    const std::uint64_t size = std::min<std::uint64_t>(range.size, file.size() - range.offset);
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(range.offset), size, plan.memory()[i].begin());
    got += size;
    if (size < range.size) return got;
  }
  return got;
}

Bytes sent(const BlockPlan& plan, MutableByteView buffer, const std::vector<Extent>& extents) {
  std::vector<bmi::Segment> segments;
  plan.segments(buffer, extents, segments);
  Bytes out;
  for (const bmi::Segment& segment : segments) out.insert(out.end(), segment.memory, segment.memory + segment.size);
  return out;
}

TEST(BlockPlan, ReadsExactlyTheExtentsAndZerosBehindTheEnd) {
  SeededRandom random(3);
  const Bytes file = content(20'000);
  for (int round = 0; round < 500; ++round) {
    std::vector<Extent> extents;
    Bytes expected;
    for (std::uint64_t n = 1 + random.below(8); n > 0; --n) {
      const Extent extent{random.below(24'000), 1 + random.below(3000)};
      extents.push_back(extent);
      for (std::uint64_t i = extent.offset; i < extent.offset + extent.size; ++i) {
        expected.push_back(i < file.size() ? file[i] : std::byte{0});
      }
    }
    Bytes buffer(64 * 1024, std::byte{0xEE});
    BlockPlan plan;
    ASSERT_TRUE(plan.make(extents, kBlock, buffer.size())) << "round " << round;
    plan.read_request(buffer, file.size());
    const std::uint64_t got = read(plan, file);
    EXPECT_EQ(got, plan.readable(file.size()));
    plan.zero_behind(buffer, got);
    ASSERT_BYTES(sent(plan, buffer, extents), expected) << round;
  }
}

TEST(BlockPlan, NeighboursShareTheirBlocks) {
  BlockPlan plan;
  Bytes buffer(4096);
  const std::vector<Extent> extents{{100, 300}, {500, 400}, {3000, 10}};
  ASSERT_TRUE(plan.make(extents, kBlock, buffer.size()));
  plan.read_request(buffer, 1 << 20);
  ASSERT_EQ(plan.ranges().size(), 2U);
  EXPECT_EQ(plan.ranges()[0].offset, 0U);
  EXPECT_EQ(plan.ranges()[0].size, 1024U);
}

TEST(BlockPlan, BlocksOfManySmallPiecesMayExceedTheBuffer) {
  BlockPlan plan;
  std::vector<Extent> extents;
  for (std::uint64_t i = 0; i < 100; ++i) extents.push_back({i * 10'000, 10});
  EXPECT_FALSE(plan.make(extents, kBlock, 99 * kBlock)) << plan.ranges().size() << " ranges";
  EXPECT_TRUE(plan.make(extents, kBlock, 100 * kBlock)) << plan.ranges().size() << " ranges";
}

}  // namespace
}  // namespace spate::flow
